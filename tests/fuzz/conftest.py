"""A few invalid inputs are tried in each test run, many with `make fuzz`."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("fuzz", max_examples=120, derandomize=False, print_blob=True)
