"""Flower for a farm, with runs: what a task belongs to, what a run has cost, and Retry for a run that parked."""
