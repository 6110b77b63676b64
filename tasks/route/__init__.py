"""What the jobs of a `route` run share: their names, keys and inputs, and the statistics of its claims; no torch."""
