"""`orchestrator export`: what a run has found as a file for an inference engine that Whetstone does not start."""
