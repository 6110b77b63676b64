"""What one does to a run from another terminal: list what failed, retry it, cancel it, delete it."""

from __future__ import annotations

import json

import pytest
from farm_bench import until
from simulated_run import Driver
from simulated_signals import signal_key
from terminal import CHILDREN, Terminal, ended

from orchestrator.runs.folder import run_file
from orchestrator.runs.lifecycle import failed_tasks
from orchestrator.runs.status import run_status
from tasks.store.keys import CANCELLED

pytestmark = pytest.mark.long


def test_what_failed_is_listed_and_retried_one_by_one(terminal: Terminal, driver: Driver) -> None:
    # Given a run that parked because the reflector failed for both children
    for node in CHILDREN:
        driver.set_signal("fail", "reflect", node)
    status, said = ended(terminal.evolve())
    assert status == 3, said
    failed = sorted((one["node"], one["stage"], one["tries"]) for one in terminal.failed())  # listed by time
    assert failed == [(node, "reflect", 1) for node in CHILDREN]
    status, said = terminal.run("failed", str(terminal.output))
    assert "g0_child0_mut: reflect failed, tried 1 time, last at" in said
    assert "  RuntimeError: as it was told\n" in said
    # When a name that nothing failed by is retried, then nothing starts
    status, said = terminal.run("retry", str(terminal.output), "g9_child9_mut")
    assert (status, "no failed task is called 'g9_child9_mut'" in said) == (1, True)
    # When one is retried, then it alone is done, and the run parks with the other one
    for node in CHILDREN:
        driver.clear_signal("fail", "reflect", node)
    status, said = terminal.run("retry", str(terminal.output), CHILDREN[0])
    assert status == 3, said
    assert [one["node"] for one in terminal.failed()] == [CHILDREN[1]]
    assert [driver.began("reflect", node) for node in CHILDREN] == [2, 1]
    assert "parked     reflect of g0_child1_mut failed" in terminal.run("status", str(terminal.output))[1]
    # When all is retried, then the run ends, and nothing was done twice
    status, said = terminal.run("retry", str(terminal.output))
    assert status == 0, said
    assert [driver.began("reflect", node) for node in CHILDREN] == [2, 2]
    assert terminal.failed() == []
    assert run_status(terminal.output).state == "finished"


def test_a_run_at_work_goes_on_when_its_failures_are_retried_beside_it(terminal: Terminal, driver: Driver) -> None:
    driver.set_signal("fail", "reflect", CHILDREN[0])
    running = terminal.start(*terminal.evolve_command()[3:], "--retry-wait", "100")
    until((terminal.output / "run.json").exists, 60)
    until(lambda: failed_tasks(driver.store, run_file(terminal.output)["id"]), 60)
    driver.clear_signal("fail", "reflect", CHILDREN[0])
    status, said = terminal.run("retry", str(terminal.output))
    assert (status, said.startswith(f"sent again: reflect of {CHILDREN[0]} (task ")) == (0, True)
    status, said = ended(running)
    assert status == 0, said
    assert "waiting 100 s for a retry" in said


def test_a_run_is_cancelled_goes_on_and_is_deleted(terminal: Terminal, driver: Driver) -> None:
    # Given a run with an answer in hand that takes its time
    first = "g0_pop0"
    driver.set_signal("hold", "answer", first)
    running = terminal.evolve()
    until(lambda: driver.began("answer", first), 60)
    run_id = run_file(terminal.output)["id"]
    # When it is cancelled, then its driver stops with a clear line
    cancelling = terminal.start("cancel", str(terminal.output))
    status, said = ended(running)
    assert (status, "parked: cancelled by `orchestrator cancel`" in said) == (3, True)
    # And the command waits for what is at work, and says how to go on
    assert driver.store.metadata(run_id, CANCELLED)
    driver.clear_signal("hold", "answer", first)
    status, said = ended(cancelling)
    assert status == 0, said
    assert f"go on with: orchestrator retry {terminal.output}" in said
    judged = driver.began("judge", first)
    assert judged == 0
    # When it goes on, then the answer that was there is not asked for again
    status, said = terminal.run("retry", str(terminal.output))
    assert status == 0, said
    assert driver.began("answer", first) == 1
    # When it is deleted, then nothing of it is left, and its folder is
    status, said = terminal.run("runs", "--delete", str(terminal.output))
    assert status == 0, said
    for client in (driver.broker, driver.app.backend.client, driver.store.redis):
        assert [key for key in client.scan_iter(match=f"*{run_id}*", count=1000)] == []
    left = {key.decode() for key in driver.store.redis.scan_iter(match="whetstone:*", count=1000)}
    assert not [key for key in left if ":answer:" in key or ":verdict:" in key or ":clustering:" in key]
    assert run_status(terminal.output).state == "finished"


def test_the_first_line_of_a_run_names_who_reflects_and_judges_and_the_highest_cost(
    terminal: Terminal, driver: Driver
) -> None:
    prices = {"OPENAI_PRICES": "1 1 1"}
    driver.store.redis.set(signal_key("template", "server", "identity"), "without system")
    address = {"NGEN": "1", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    status, said = ended(terminal.evolve(BUDGET_USD="5", **address, **prices))
    assert status == 0, said
    assert said.splitlines()[0].endswith(
        "reflector: gpt-4o at http://127.0.0.1:9/v1; judge: gpt-4o at http://127.0.0.1:9/v1; cost: at most $5.00"
    )
    assert said.count("chat template has no system message") == 1
    # And without prices the cost is unknown, and nowhere free
    status, said = ended(terminal.evolve(**address))
    assert (status, "cost: unknown, since the prices are not set" in said.splitlines()[0]) == (0, True)
    assert "free" not in said
    status, said = terminal.run("status", str(terminal.output))
    assert "cost       unknown" in said
    # Three individuals, and two children before and after their mutation
    assert "7 computed, 0 from the cache, 0 carried over" in said
    assert json.loads(terminal.run("status", str(terminal.output), "--json")[1])["cost_usd"] is None
