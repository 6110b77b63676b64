"""A budget: a run stops before it is overdrawn, says so, and goes on when there is more."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from workplace import Workplace, orchestrator

CALLS = "endpoint_calls.jsonl"
# Dear prompts: the whole run costs about 0.80 dollars, and its first generation half of that.
PRICES = {"OPENAI_PRICE_PROMPT": "100", "OPENAI_PRICE_CACHED": "50", "OPENAI_PRICE_COMPLETION": "5"}
BUDGET = 0.3

pytestmark = pytest.mark.long


def status(workplace: Workplace) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(orchestrator("status", str(workplace.output), "--json").stdout)
    return found


def billed(workplace: Workplace) -> float:
    """What the endpoint would ask for all that it answered, by its own log."""
    calls = [json.loads(line) for line in (workplace.farm / "logs" / CALLS).read_text().splitlines()]
    return sum(100 * call["prompt_tokens"] + 5 * call["completion_tokens"] for call in calls) / 1e6


def test_a_run_parks_at_its_budget_and_goes_on_when_it_is_raised(undisturbed: Workplace, workplace: Workplace) -> None:
    # when a run has money for less than its first generation
    parked = workplace.run(BUDGET_USD=str(BUDGET), **PRICES)
    # then it parks and says how to go on
    assert parked.returncode == 3, parked.stdout
    assert f"parked: CONFIG_BUDGET_USD={BUDGET} is reached" in parked.stdout
    assert f"orchestrator retry {workplace.output} --set BUDGET_USD=0.6" in parked.stdout
    assert "Traceback" not in parked.stdout
    # and it has not spent more than it was given, nor other than the endpoint asks for
    standing = status(workplace)
    assert (standing["state"], standing["budget_usd"], standing["unconfirmed_usd"]) == ("parked", BUDGET, 0)
    assert standing["cost_usd"] == pytest.approx(billed(workplace), abs=1e-9)
    assert 0.1 < standing["cost_usd"] <= BUDGET
    assert "of $0.3000" in orchestrator("status", str(workplace.output)).stdout

    # when it is given more
    done = orchestrator("retry", str(workplace.output), "--set", "BUDGET_USD=2")
    # then it ends where a run without a budget ends, with no call made twice
    assert done.returncode == 0, done.stdout
    assert workplace.state() == undisturbed.state()
    assert [call for call, times in Counter(workplace.answered(CALLS)).items() if times > 1] == []
    # and the report, the history and the status agree with the endpoint about the money
    cost = status(workplace)["cost_usd"]
    assert cost == pytest.approx(billed(workplace), abs=1e-9)
    assert f"${cost:.4f} of $2.00" in done.stdout
    history = [json.loads(line) for line in (workplace.output / "history.jsonl").read_text().splitlines()]
    assert 0.5 * cost < sum(g["cost_usd"] for g in history) <= cost + 1e-5
    assert workplace.processes() == []
