"""Processes that a worker or a farm owns: start, watch, stop."""
