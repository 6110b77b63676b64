"""The run kind `collect`: from questions to the tokens that a model wastes."""

NO_LIMIT_REQUESTS, NO_LIMIT_TOKENS = 100_000, 1_000_000_000
"""Requests and tokens a minute where no limit is given."""
