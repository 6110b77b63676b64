"""A budget: a run parks before it spends more, gives the reason, and continues when the budget is raised."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from rules_server import RulesServer
from run_folder import RunFolder, orchestrator

CALLS = "endpoint_calls.jsonl"
# High prices: the whole run costs about 0.80 dollars, and its first generation half of that.
PRICES = {"OPENAI_PRICES": "100 50 5"}
BUDGET = 0.3

pytestmark = pytest.mark.long


def status(run_folder: RunFolder) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(orchestrator("status", str(run_folder.output), "--json").stdout)
    return found


def billed(rules: RulesServer) -> float:
    """The price in dollars of all answered calls, from the log of the endpoint."""
    return sum(100 * call["prompt_tokens"] + 5 * call["completion_tokens"] for call in rules.calls()) / 1e6


def test_a_run_parks_at_its_budget_and_continues_when_it_is_raised(
    reference_run: RunFolder, run_folder: RunFolder, rules: RulesServer
) -> None:
    run_folder.options |= rules.options
    # when the budget of a run is smaller than the cost of its first generation
    parked = run_folder.run(BUDGET_USD=str(BUDGET), **PRICES)
    # then it parks and names the command that continues it
    assert parked.returncode == 3, parked.stdout
    assert f"parked: the budget of {BUDGET} US dollars is reached" in parked.stdout
    assert f"orchestrator retry {run_folder.output} --set BUDGET_USD=0.6" in parked.stdout
    assert "Traceback" not in parked.stdout
    # and its cost is within the budget and equals what the endpoint's log gives
    run_status = status(run_folder)
    assert (run_status["state"], run_status["budget_usd"], run_status["unconfirmed_usd"]) == ("parked", BUDGET, 0)
    assert run_status["cost_usd"] == pytest.approx(billed(rules), abs=1e-9)
    assert 0.1 < run_status["cost_usd"] <= BUDGET
    assert "of $0.3000" in orchestrator("status", str(run_folder.output)).stdout

    # when its budget is raised
    done = orchestrator("retry", str(run_folder.output), "--set", "BUDGET_USD=2")
    # then it ends in the state of a run without a budget, with no call made twice
    assert done.returncode == 0, done.stdout
    assert run_folder.state() == reference_run.state()
    assert [call for call, times in Counter(run_folder.answered(CALLS)).items() if times > 1] == []
    # and the report, the history and the status give the cost of the endpoint's log
    cost = status(run_folder)["cost_usd"]
    assert cost == pytest.approx(billed(rules), abs=1e-9)
    assert f"${cost:.4f} of $2.00" in done.stdout
    history = [json.loads(line) for line in (run_folder.output / "history.jsonl").read_text().splitlines()]
    assert 0.5 * cost < sum(g["cost_usd"] for g in history) <= cost + 1e-5
    assert run_folder.processes() == []
