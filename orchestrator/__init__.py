"""Decides what runs next: command line, settings, the genetic algorithm, reports."""
