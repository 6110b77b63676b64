"""`orchestrator doctor`: whether a run could be done here and now, and how to mend what is in its way."""
