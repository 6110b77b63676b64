"""The budget of a run: before a call its largest possible cost is reserved; after it the actual cost takes its place.

So calls in flight at the same time, on any number of workers, never spend more together than the budget.
"""

from __future__ import annotations

import dataclasses
import threading
import time
import uuid
from collections.abc import Callable

from tasks.openai.endpoint import BudgetSpent, Usage, cost_usd
from tasks.records import Endpoint
from tasks.store.ledger import Ledger, Spending

TOKENS = ("prompt", "cached", "completion", "reasoning")
PAUSE_S = 0.2  # between two attempts, while other calls hold what this one needs
MARGIN_S = 30.0  # beyond the endpoint's timeout, after which a call without an outcome counts as unconfirmed


class RedisBudget:
    """The budget of a run, shared by all workers through the store."""

    def __init__(self, ledger: Ledger, endpoint: Endpoint, sleep: Callable[[float], None] = time.sleep) -> None:
        self._ledger = ledger
        self._endpoint = endpoint
        self._sleep = sleep

    def reserve(self, most: Usage) -> str:
        """Reserve the largest possible cost of a call, and count the call; returns the id of the reservation.

        Waits while calls in flight hold the rest of the budget.
        """
        reservation_id, dollars = uuid.uuid4().hex, cost_usd(most, self._endpoint)
        budget, life_s = self._endpoint.budget_usd, self._endpoint.timeout_s + MARGIN_S
        while True:
            fits, spending = self._ledger.reserve(reservation_id, dollars, budget, life_s)
            if fits:
                return reservation_id
            if spending.spent + spending.unconfirmed + dollars > budget:
                raise _budget_spent(spending, dollars, budget)
            self._sleep(PAUSE_S)

    def settle(self, reservation_id: str, model: str, usage: Usage | None) -> None:
        """Replace a reservation by what the call used.

        None when that is unknown, as after a timeout: the reservation stays, because the call may have been paid.
        """
        if usage is None:
            self._ledger.mark_unconfirmed(reservation_id)
            return
        tokens = {kind: count for kind in TOKENS if (count := getattr(usage, kind))}
        by_model = {model_counter(kind, model): count for kind, count in tokens.items()}
        self._ledger.settle(reservation_id, {**tokens, **by_model, "cost_usd": cost_usd(usage, self._endpoint)})


class LocalBudget:
    """A budget for the threads of one process."""

    def __init__(self, endpoint: Endpoint, sleep: Callable[[float], None] = time.sleep) -> None:
        self.used = Usage()
        self._endpoint = endpoint
        self._sleep = sleep
        self._lock = threading.Lock()
        self._in_flight: dict[str, float] = {}
        self._unconfirmed = 0.0

    @property
    def spending(self) -> Spending:
        return Spending(cost_usd(self.used, self._endpoint), sum(self._in_flight.values()), self._unconfirmed)

    def reserve(self, most: Usage) -> str:
        reservation_id, dollars = uuid.uuid4().hex, cost_usd(most, self._endpoint)
        budget = self._endpoint.budget_usd
        while True:
            with self._lock:
                spending = self.spending
                if not budget or spending.spent + spending.in_flight + spending.unconfirmed + dollars <= budget:
                    self._in_flight[reservation_id] = dollars
                    self.used += Usage(requests=1)
                    return reservation_id
            if spending.spent + spending.unconfirmed + dollars > budget:
                raise _budget_spent(spending, dollars, budget)
            self._sleep(PAUSE_S)

    def settle(self, reservation_id: str, model: str, usage: Usage | None) -> None:
        with self._lock:
            most = self._in_flight.pop(reservation_id, 0.0)
            if usage is None:
                self._unconfirmed += most
            else:
                self.used += dataclasses.replace(usage, requests=0)


Budget = LocalBudget | RedisBudget


def model_counter(kind: str, model: str) -> str:
    """The name of the counter that holds one model's share of `kind` (see `Usage`)."""
    return f"{kind}@{model}"


def _budget_spent(spending: Spending, dollars: float, budget: float) -> BudgetSpent:
    unconfirmed = (
        f" and up to {spending.unconfirmed:.4f} for calls whose outcome is unknown" if spending.unconfirmed else ""
    )
    return BudgetSpent(
        f"the budget of {budget:g} US dollars is reached: {spending.spent:.4f} are spent{unconfirmed}, "
        f"and the next call may take {dollars:.4f}"
    )
