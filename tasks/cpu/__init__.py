"""The tasks of the cpu queue: scores, plots, what a verifier says."""
