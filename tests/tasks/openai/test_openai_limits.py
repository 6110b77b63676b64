"""Limits and money that hold across workers, on a real Valkey over a Unix socket."""

from __future__ import annotations

import dataclasses
import itertools
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tasks.openai.endpoint import BudgetSpent, Usage, cost_usd
from tasks.openai.limits import BURST_S, MARGIN_S, Limits, RunLimits, Spending, spending_of
from tasks.records import Endpoint
from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.store import Store

MOST = Usage(prompt=10_000, completion=4_000)  # 0.05 US dollars at these prices


def endpoint(budget: float, requests: int = 0, tokens: int = 0) -> Endpoint:
    return Endpoint("", "K", 10.0, 1, requests, tokens, 1.0, 0.5, 10.0, budget)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("limit", [{"requests": 60}, {"tokens": 60_000}])
def test_requests_and_tokens_a_minute_hold_across_four_workers_and_nobody_waits_for_longer(
    valkey_url: str, limit: dict[str, int]
) -> None:
    # Given a request of a thousand tokens a second, a burst, and workers of two runs who ask in turn; nobody waits
    waits: list[float] = []
    workers = [
        RunLimits(connect(store_url(valkey_url)), f"run{number % 2}", endpoint(0, **limit), waits.append)
        for number in range(4)
    ]
    started = time.monotonic()
    for number in range(40):
        waits.clear()
        workers[number % 4].begin(Usage(prompt=1000))
        # Then each has to wait until those before it are paid off but for the burst
        due = number - BURST_S
        assert due - (time.monotonic() - started) - 0.1 <= sum(waits) <= max(0, due) + 0.1


def limits_of(kind: str, store: Store, asked: Endpoint, sleep: Callable[[float], None] = time.sleep) -> Limits:
    return RunLimits(store.redis, "run", asked, sleep) if kind == "run" else Limits(asked, sleep)


def test_sixteen_calls_at_a_time_spend_one_budget_and_count_each_call_once(store: Store, valkey_url: str) -> None:
    # given one dollar, and calls of up to five cents from four workers of four threads
    def spend(seed: int) -> list[tuple[int, int]]:
        rng, used, budget = random.Random(seed), [], workers[seed % 4]
        try:
            while True:
                call = budget.begin(MOST)
                usage = Usage(1, rng.randrange(10_000), 0, rng.randrange(1_000))
                for _ in range(2):  # as a client does that lost its connection
                    budget.settle(call, "m", usage)
                used.append((usage.prompt, usage.completion))
        except BudgetSpent:
            return used

    # when all spend until they are told that it is spent
    workers = [RunLimits(connect(store_url(valkey_url)), "run", endpoint(1.0)) for _ in range(4)]
    with ThreadPoolExecutor(16) as pool:
        calls = list(itertools.chain(*pool.map(spend, range(16))))
    # then the sum is that of the calls, each counted once
    usage = store.usage("run")
    assert [usage[k] for k in ("requests", "prompt", "completion")] == [len(calls), *map(sum, zip(*calls, strict=True))]
    spent = sum(cost_usd(Usage(1, prompt, 0, completion), endpoint(0)) for prompt, completion in calls)
    assert usage["cost_usd"] == pytest.approx(spent, abs=1e-9)
    assert (usage["prompt@m"], usage["completion@m"]) == (usage["prompt"], usage["completion"])
    # and it is not more than the dollar, nor so little that another call would have fitted
    assert 0.95 < usage["cost_usd"] <= 1.0
    assert spending_of(store.redis, "run") == Spending(usage["cost_usd"], 0, 0)


@pytest.mark.parametrize("kind", ["run", "local"])
def test_who_finds_the_rest_held_by_calls_under_way_waits_for_them(store: Store, kind: str) -> None:
    # given a budget for two calls at their most, both under way
    looked, pause = threading.Event(), threading.Event()

    def sleep(seconds: float) -> None:
        looked.set()
        pause.wait(seconds)

    budget = limits_of(kind, store, endpoint(0.11), sleep)
    first, _ = budget.begin(MOST), budget.begin(MOST)
    with ThreadPoolExecutor(1) as pool:
        # when a third asks
        third = pool.submit(budget.begin, MOST)
        # then it waits, and comes through when one of the others turns out cheap
        assert looked.wait(10) and not third.done()
        budget.settle(first, "m", Usage(1, 100, 0, 10))
        assert third.result(10)


@pytest.mark.parametrize("kind", ["run", "local"])
def test_a_call_that_has_no_known_outcome_stays_charged_at_its_most(store: Store, kind: str) -> None:
    budget = limits_of(kind, store, endpoint(0.07))
    budget.settle(budget.begin(MOST), "m", None)
    spending = budget.spending if not isinstance(budget, RunLimits) else spending_of(store.redis, "run")
    assert dataclasses.astuple(spending) == (0, 0, pytest.approx(0.05))
    with pytest.raises(BudgetSpent, match=r"up to 0\.0500 for calls whose cost is unknown"):
        budget.begin(MOST)


def test_a_call_whose_worker_died_counts_as_unconfirmed_until_its_answer_comes_after_all(store: Store) -> None:
    # given a call that has said nothing for longer than it may take
    limits = RunLimits(store.redis, "run", dataclasses.replace(endpoint(1.0), timeout_s=-MARGIN_S - 1))
    call = limits.begin(MOST)
    assert dataclasses.astuple(spending_of(store.redis, "run")) == (0, 0, pytest.approx(0.05))
    # when its worker was only slow, and settles it at last, twice
    for _ in range(2):
        limits.settle(call, "m", Usage(completion=1000))
    # then that is what it cost
    assert spending_of(store.redis, "run") == Spending(0.01, 0, 0)
    assert store.usage("run") == {"requests": 1, "completion": 1000, "completion@m": 1000, "cost_usd": 0.01}


def test_cost_counts_cached_tokens_at_their_own_price() -> None:
    asked = Endpoint("", "K", 1, 1, 0, 0, price_prompt=2.0, price_cached=0.5, price_completion=8.0, budget_usd=0)
    used = Usage(1, prompt=700_000, cached=200_000, completion=100_000, reasoning=60_000) + Usage(1, 300_000)
    assert used.requests == 2
    assert cost_usd(used, asked) == pytest.approx(0.8 * 2.0 + 0.2 * 0.5 + 0.1 * 8.0)
