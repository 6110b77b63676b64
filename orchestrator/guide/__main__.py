"""`python -m orchestrator.guide`, the same as `orchestrator guide`."""

from __future__ import annotations

import sys

from orchestrator.cli import main

if __name__ == "__main__":
    main(["guide", *sys.argv[1:]])
