"""Money that is counted once and never overdrawn, by many processes and threads at once."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tasks.openai.budget import Budget, LocalBudget, RedisBudget
from tasks.openai.endpoint import BudgetSpent, Usage, cost_usd
from tasks.records import Endpoint
from tasks.store.client import store_url
from tasks.store.ledger import Spending
from tasks.store.store import Store

MOST = Usage(prompt=10_000, completion=4_000)  # 0.05 US dollars at these prices

# Spends with four threads until the budget is reached, and prints what each call used.
SPENDING = """
import random, sys
from concurrent.futures import ThreadPoolExecutor
from tasks.openai.endpoint import BudgetSpent
from tasks.openai.budget import RedisBudget
from tasks.openai.endpoint import Usage
from tasks.store.client import store_url
from tasks.records import Endpoint
from tasks.store.client import connect
from tasks.store.store import Store

store = Store(connect(sys.argv[1]))
budget = RedisBudget(store.ledger("run"), Endpoint("", "K", 10, 1, 0, 0, 1.0, 0.5, 10.0, 1.0))
def spend(seed):
    rng, used = random.Random(seed), []
    try:
        while True:
            reservation_id = budget.reserve(Usage(prompt=10_000, completion=4_000))
            usage = Usage(1, rng.randrange(10_000), 0, rng.randrange(1_000))
            budget.settle(reservation_id, "m", usage)
            budget.settle(reservation_id, "m", usage)  # as a client does that lost its connection
            used.append(usage)
    except BudgetSpent:
        return used
with ThreadPoolExecutor(4) as pool:
    for used in pool.map(spend, range(int(sys.argv[2]), int(sys.argv[2]) + 4)):
        for usage in used:
            print(usage.prompt, usage.completion)
"""


def endpoint(budget: float) -> Endpoint:
    return Endpoint(
        "", "K", 10.0, 1, 0, 0, price_prompt=1.0, price_cached=0.5, price_completion=10.0, budget_usd=budget
    )


def run_purse(store: Store, budget: float) -> RedisBudget:
    return RedisBudget(store.ledger("run"), endpoint(budget))


def test_four_processes_of_four_threads_spend_one_budget_and_count_each_call_once(
    store: Store, valkey_url: str
) -> None:
    # given one dollar, and calls of up to five cents from sixteen threads
    command = [sys.executable, "-c", SPENDING, store_url(valkey_url)]
    processes = [subprocess.Popen([*command, str(10 * i)], stdout=subprocess.PIPE, text=True) for i in range(4)]
    # when all spend until they are told that it is spent
    with ThreadPoolExecutor(4) as pool:
        outputs = list(pool.map(lambda process: process.communicate(timeout=60)[0], processes))
    calls = [tuple(map(int, line.split())) for output in outputs for line in output.splitlines()]
    # then the sum is that of the calls, each counted once
    usage = store.usage("run")
    assert [usage[k] for k in ("requests", "prompt", "completion")] == [len(calls), *map(sum, zip(*calls, strict=True))]
    spent = sum(cost_usd(Usage(1, prompt, 0, completion), endpoint(0)) for prompt, completion in calls)
    assert usage["cost_usd"] == pytest.approx(spent, abs=1e-9)
    assert (usage["prompt@m"], usage["completion@m"]) == (usage["prompt"], usage["completion"])
    # and it is not more than the dollar, nor so little that another call would have fitted
    assert 0.95 < usage["cost_usd"] <= 1.0
    assert store.ledger("run").spending() == Spending(usage["cost_usd"], 0, 0)


@pytest.mark.parametrize("kind", ["run", "local"])
def test_who_finds_the_rest_held_by_calls_under_way_waits_for_them(store: Store, kind: str) -> None:
    # given a budget for two calls at their most, both under way
    looked = threading.Event()
    pause = threading.Event()

    def sleep(seconds: float) -> None:
        looked.set()
        pause.wait(seconds)

    asked = endpoint(0.11)
    budget: Budget = RedisBudget(store.ledger("run"), asked, sleep) if kind == "run" else LocalBudget(asked, sleep)
    first, _ = budget.reserve(MOST), budget.reserve(MOST)
    with ThreadPoolExecutor(1) as pool:
        # when a third asks
        third = pool.submit(budget.reserve, MOST)
        # then it waits, and comes through when one of the others turns out cheap
        assert looked.wait(10) and not third.done()
        budget.settle(first, "m", Usage(1, 100, 0, 10))
        assert third.result(10)


@pytest.mark.parametrize("kind", ["run", "local"])
def test_a_call_that_has_no_known_outcome_stays_charged_at_its_most(store: Store, kind: str) -> None:
    asked = endpoint(0.07)
    budget: Budget = RedisBudget(store.ledger("run"), asked) if kind == "run" else LocalBudget(asked)
    budget.settle(budget.reserve(MOST), "m", None)
    spending = budget.spending if isinstance(budget, LocalBudget) else store.ledger("run").spending()
    assert spending == Spending(0, 0, pytest.approx(0.05))
    with pytest.raises(BudgetSpent, match=r"up to 0\.0500 for calls whose outcome is unknown"):
        budget.reserve(MOST)


def test_a_call_whose_worker_died_counts_as_unconfirmed_until_its_answer_comes_after_all(store: Store) -> None:
    # given a call that has said nothing for longer than it may take
    ledger = store.ledger("run")
    assert ledger.reserve("call", 0.05, 1.0, life_s=-1)[0]
    assert ledger.spending() == Spending(0, 0, 0.05)
    # when its worker was only slow, and settles it at last, twice
    for _ in range(2):
        ledger.settle("call", {"completion": 5, "cost_usd": 0.01})
    # then that is what it cost
    assert ledger.spending() == Spending(0.01, 0, 0)
    assert store.usage("run") == {"requests": 1, "completion": 5, "cost_usd": 0.01}


def test_any_number_of_small_prices_adds_up(store: Store) -> None:
    rng, budget = random.Random(3), run_purse(store, 0.0)
    used = [Usage(1, rng.randrange(5), 0, rng.randrange(3)) for _ in range(200)]
    for usage in used:
        budget.settle(budget.reserve(usage), "m", usage)
    assert store.ledger("run").spending().spent == pytest.approx(sum(cost_usd(u, endpoint(0)) for u in used), rel=1e-9)
