"""The tasks of the cpu queue: scores, plots, token ids and frequencies."""
