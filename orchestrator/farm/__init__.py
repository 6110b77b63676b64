"""The farm as a run sees it: sending, waiting, its workers.  Only here does the orchestrator import `workers`."""

from __future__ import annotations

from tasks.openai.endpoint import BudgetSpent
from tasks.records import Failure


class FarmUnavailable(Exception):
    """No farm can be used; the reason is one line, or the last lines of a log."""


class FarmLost(FarmUnavailable):
    """A farm that was reached can be used no longer."""


class StoreLost(FarmLost):
    """The farm's Redis or Valkey has refused or not answered for as long as a run waits; the reason is one line."""


class Parked(Exception):
    """The run cannot go on now.  What was finished is recorded; `orchestrator retry` does the rest."""

    def __init__(self, reason: str, failures: tuple[Failure, ...] = ()) -> None:
        super().__init__(reason)
        self.reason, self.failures = reason, failures

    @property
    def budget_exhausted(self) -> bool:
        """Whether it was the budget that stopped the run: then it needs a larger one, and nothing else."""
        return any(failure.error.startswith(f"{BudgetSpent.__name__}:") for failure in self.failures)
