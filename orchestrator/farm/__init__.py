"""The farm as the orchestrator sees it: connection, workers, checks."""
