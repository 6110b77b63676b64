"""The work, one module a job, grouped by the queue that does it.  Imports neither `orchestrator` nor `workers`."""
