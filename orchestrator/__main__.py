"""`python -m orchestrator` is the console script."""

from orchestrator.cli import main

main()
