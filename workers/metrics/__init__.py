"""The farm's numbers for Prometheus: `python -m workers.metrics` serves them, so that no worker needs an open port."""
