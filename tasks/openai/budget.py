"""Who pays for a call: money is set aside before it, and what it really cost takes its place after it.

So calls that are under way at the same time, on however many workers, never spend more together than the budget has.
"""

from __future__ import annotations

import dataclasses
import threading
import time
import uuid
from collections.abc import Callable
from typing import Protocol

from tasks.models import Endpoint
from tasks.openai.errors import BudgetSpent
from tasks.openai.usage import Usage, cost_usd
from tasks.store.ledger import Ledger, Spending

TOKENS = ("prompt", "cached", "completion", "reasoning")
PAUSE_S = 0.2  # between two looks, while others' calls hold what this one needs
MARGIN_S = 30.0  # beyond the endpoint's timeout, until a call that says nothing counts as unconfirmed


class Budget(Protocol):
    """Whoever calls asks here before every try, which is counted then, and tells what became of it."""

    def reserve(self, most: Usage) -> str:
        """Set aside what a call can cost at most; returns its receipt.  Blocks while calls under way hold the rest.

        Raises: BudgetSpent when it does not fit, whatever becomes of the calls under way.
        """

    def settle(self, receipt: str, model: str, usage: Usage | None) -> None:
        """The endpoint has answered, or has refused: this is what the call used.

        None when that is not known, as after a timeout: what was set aside stays so, for it may have been paid.
        """


class RedisBudget:
    """The `Budget` of a run, shared by all workers: its money lies in the store."""

    def __init__(self, ledger: Ledger, endpoint: Endpoint, sleep: Callable[[float], None] = time.sleep) -> None:
        self._ledger = ledger
        self._endpoint = endpoint
        self._sleep = sleep

    def reserve(self, most: Usage) -> str:
        receipt, dollars = uuid.uuid4().hex, cost_usd(most, self._endpoint)
        budget, life_s = self._endpoint.budget_usd, self._endpoint.timeout_s + MARGIN_S
        while True:
            fits, money = self._ledger.reserve(receipt, dollars, budget, life_s)
            if fits:
                return receipt
            if money.spent + money.unconfirmed + dollars > budget:
                raise _spent(money, dollars, budget)
            self._sleep(PAUSE_S)

    def settle(self, receipt: str, model: str, usage: Usage | None) -> None:
        if usage is None:
            self._ledger.mark_unconfirmed(receipt)
            return
        tokens = {kind: count for kind in TOKENS if (count := getattr(usage, kind))}
        by_model = {of_model(kind, model): count for kind, count in tokens.items()}
        self._ledger.settle(receipt, {**tokens, **by_model, "cost_usd": cost_usd(usage, self._endpoint)})


class LocalBudget:
    """A `Budget` for the threads of one process, which keeps the sums itself."""

    def __init__(self, endpoint: Endpoint, sleep: Callable[[float], None] = time.sleep) -> None:
        self.used = Usage()
        self._endpoint = endpoint
        self._sleep = sleep
        self._lock = threading.Lock()
        self._under_way: dict[str, float] = {}
        self._unconfirmed = 0.0

    @property
    def money(self) -> Spending:
        return Spending(cost_usd(self.used, self._endpoint), sum(self._under_way.values()), self._unconfirmed)

    def reserve(self, most: Usage) -> str:
        receipt, dollars = uuid.uuid4().hex, cost_usd(most, self._endpoint)
        budget = self._endpoint.budget_usd
        while True:
            with self._lock:
                money = self.money
                if not budget or money.spent + money.in_flight + money.unconfirmed + dollars <= budget:
                    self._under_way[receipt] = dollars
                    self.used += Usage(requests=1)
                    return receipt
            if money.spent + money.unconfirmed + dollars > budget:
                raise _spent(money, dollars, budget)
            self._sleep(PAUSE_S)

    def settle(self, receipt: str, model: str, usage: Usage | None) -> None:
        with self._lock:
            most = self._under_way.pop(receipt, 0.0)
            if usage is None:
                self._unconfirmed += most
            else:
                self.used += dataclasses.replace(usage, requests=0)


def of_model(kind: str, model: str) -> str:
    """The name of the counter that holds one model's share of `kind` (see `Usage`)."""
    return f"{kind}@{model}"


def _spent(money: Spending, dollars: float, budget: float) -> BudgetSpent:
    unconfirmed = f" and up to {money.unconfirmed:.4f} for calls whose outcome is unknown" if money.unconfirmed else ""
    return BudgetSpent(
        f"CONFIG_BUDGET_USD={budget:g} is reached: {money.spent:.4f} US dollars are spent{unconfirmed}, "
        f"and the next call may take {dollars:.4f}"
    )
