"""The farm as a run sees it: sending, waiting, its workers.  Only here does the orchestrator import `workers`."""


class FarmUnavailable(Exception):
    """No farm can be used; the reason is one line, or the last lines of a log."""


class FarmLost(FarmUnavailable):
    """A farm that was reached can be used no longer."""


class StoreLost(FarmLost):
    """The farm's Redis or Valkey has refused or not answered for as long as a run waits; the reason is one line."""
