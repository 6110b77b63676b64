"""Steering inside the served model: parameters that are checked, and the processor that adds them."""
