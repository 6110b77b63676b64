"""A run from its settings to its report: prepare, watch, record, finish."""
