"""Decides what runs next: command line, settings, the kinds of runs, reports.  `orchestrator.api` is for scripts."""
