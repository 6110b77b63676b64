"""What one does to a run from another terminal: list what failed, retry it, cancel it, delete it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from farm_bench import Bench, until
from simulated_run import Driver
from simulated_signals import signal_key

from orchestrator.dispatch.failures import failed_tasks
from orchestrator.output import run_id_of
from orchestrator.runs.status import run_status
from tasks.openai.provider import NOBODY
from tasks.store.keys import CANCELLED

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
SMALL = {
    "FARM": "external", "POPULATION_SIZE": "3", "NGEN": "2", "CXPB": "0", "MUTPB": "1", "ELITISM_SIZE": "1",
    "DATA_PATH": "configs/data/sample.jsonl", "TRAINING_INDICES": "0-1", "VALIDATION_INDICES": "",
    "EVALUATION_CACHE": "y",
}  # fmt: skip
CHILDREN = ("g0_child0_mut", "g0_child1_mut")


class Terminal:
    """Somebody who types commands, and the run's folder."""

    def __init__(self, folder: Path, url: str) -> None:
        self.output = folder / "output"
        self.url = url
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "orchestrator", *arguments],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def run(self, *arguments: str) -> tuple[int, str]:
        process = self.start(*arguments)
        said, _ = process.communicate(timeout=120)
        return process.returncode, said

    def evolve(self, **options: str) -> subprocess.Popen[str]:
        chosen = {**SMALL, "REDIS_URL": self.url, **options}
        sets = [part for name, value in chosen.items() for part in ("--set", f"{name}={value}")]
        config = str(ROOT / "configs" / "embedded.config")
        return self.start("evolve", "--config", config, "--output", str(self.output), *sets)

    def failed(self) -> list[dict[str, Any]]:
        status, said = self.run("failed", str(self.output), "--json")
        assert status == 0, said
        found: list[dict[str, Any]] = json.loads(said)
        return found

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def terminal(simulated_farm: Bench, driver: Driver, tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, simulated_farm.url)
    yield terminal
    terminal.close()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = process.communicate(timeout=120)
    return process.returncode, said


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
    running = terminal.evolve(RETRY_WAIT_S="100")
    until((terminal.output / "run.json").exists, 60)
    until(lambda: failed_tasks(driver.store, run_id_of(terminal.output)), 60)
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
    run_id = run_id_of(terminal.output)
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


def history(terminal: Terminal) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (terminal.output / "history.jsonl").read_text().splitlines()]


def test_a_judge_that_changes_judges_the_population_and_the_best_anew(terminal: Terminal, driver: Driver) -> None:
    # Given a run that parked in generation 1, after the first child was judged
    driver.set_signal("fail", "reflect", "g1_child0_mut")
    status, said = ended(terminal.evolve())
    assert status == 3, said
    assert driver.began("judge", "g1_child0_pre") == 1
    # When it goes on with another judge
    driver.clear_signal("fail", "reflect", "g1_child0_mut")
    status, said = terminal.run("retry", str(terminal.output), "--set", "JUDGE_MODEL=strict", "--plain")
    assert status == 0, said
    # Then the population of that generation, its children and the best individual so far are judged by the new one
    assert driver.began("judge", "g1_child0_pre") == 2
    assert [driver.began("judge", f"g1_pop{index}") for index in range(4)] == [1, 1, 1, 1]
    before, after = history(terminal)
    assert (before["best"], before["best_ever"], after["best"], after["mean"], after["best_ever"]) == (
        0.5, 0.5, 0.25, 0.25, 0.25
    )  # fmt: skip
    # And the change is on record with its generation, in the history, in a file of its own and in the report
    assert "settings_changed" not in before
    assert after["settings_changed"] == {"JUDGE_MODEL": "strict"}
    [change] = json.loads((terminal.output / "settings_changes.json").read_text())
    assert (change["generation"], change["options"]) == (1, {"JUDGE_MODEL": ["gpt-4o", "strict"]})
    report = (terminal.output / "report.txt").read_text()
    assert "changed      JUDGE_MODEL, from generation 1 on" in report
    # And the report names who answered: simulated stages call nobody, whatever models the settings ask for
    assert (report.count(NOBODY), "gpt-4o" in report) == (2, False)
    # And the final comparison has one judge
    [comparison] = json.loads((terminal.output / "answers.json").read_text())
    assert (comparison["fitness_before"], comparison["fitness_after"]) == (0.25, 0.25)


def test_a_judge_that_changes_before_the_final_comparison_judges_both_sides_of_it(
    terminal: Terminal, driver: Driver
) -> None:
    driver.set_signal("fail", "judge", "final1")
    status, said = ended(terminal.evolve(NGEN="1"))
    assert (status, driver.ended("judge", "final0")) == (3, 1), said
    driver.clear_signal("fail", "judge", "final1")
    status, said = terminal.run("retry", str(terminal.output), "--set", "JUDGE_MODEL=strict")
    assert (status, driver.ended("judge", "final0"), driver.ended("judge", "final1")) == (0, 2, 1), said
    [comparison] = json.loads((terminal.output / "answers.json").read_text())
    assert (comparison["fitness_before"], comparison["fitness_after"]) == (0.25, 0.25)


def test_a_parked_run_goes_on_with_another_reflector_and_repeats_nothing(terminal: Terminal, driver: Driver) -> None:
    # Given a run whose reflector's reply was cut
    driver.set_signal("fail", "reflect", CHILDREN[0])
    status, said = ended(terminal.evolve())
    assert status == 3, said
    judged = {node: driver.began("judge", node) for node in ("g0_pop0", "g0_child0_pre", "g0_child1_mut")}
    # When it goes on with a longer limit and another model
    driver.clear_signal("fail", "reflect", CHILDREN[0])
    changes = ["--set", "REFLECTOR_MAX_COMPLETION_TOKENS=8192", "--set", "REFLECTOR_MODEL=larger"]
    status, said = terminal.run("retry", str(terminal.output), *changes)
    assert status == 0, said
    # Then nothing that was judged is judged again, and the change holds from generation 0 on
    assert {node: driver.began("judge", node) for node in judged} == judged
    assert history(terminal)[0]["settings_changed"] == {
        "REFLECTOR_MODEL": "larger", "REFLECTOR_MAX_COMPLETION_TOKENS": "8192",
    }  # fmt: skip
    # And it holds none of its answers and verdicts any more: they expire
    shared = [
        key for kind in ("answer", "verdict") for key in driver.store.redis.scan_iter(match=f"whetstone:{kind}:*")
    ]
    assert shared and all(driver.store.redis.ttl(key) > 0 for key in shared)
    # But what would make it another run is refused
    status, said = terminal.run("retry", str(terminal.output), "--set", "SEED=7")
    assert (status, "CONFIG_SEED: 7 here, but 42 in the run" in said) == (1, True)


def test_the_first_line_of_a_run_names_who_reflects_and_judges_and_the_highest_cost(
    terminal: Terminal, driver: Driver
) -> None:
    prices = {f"OPENAI_PRICE_{kind}": "1" for kind in ("PROMPT", "CACHED", "COMPLETION")}
    address = {"NGEN": "1", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    status, said = ended(terminal.evolve(BUDGET_USD="5", **address, **prices))
    assert status == 0, said
    assert said.splitlines()[0].endswith(
        "reflector: gpt-4o at http://127.0.0.1:9/v1; judge: gpt-4o at http://127.0.0.1:9/v1; cost: at most $5.00"
    )
    assert "a prompt of the reflector has up to about " in said
    # And without prices the cost is unknown, and nowhere free
    status, said = ended(terminal.evolve(**address))
    assert (status, "cost: unknown, since the prices are not set" in said.splitlines()[0]) == (0, True)
    assert "free" not in said
    status, said = terminal.run("status", str(terminal.output))
    assert "cost       unknown" in said and "computed, 0 from the cache" in said
    assert json.loads(terminal.run("status", str(terminal.output), "--json")[1])["cost_usd"] is None


def test_a_run_that_is_interrupted_in_its_first_generation_leaves_what_is_known(
    terminal: Terminal, driver: Driver
) -> None:
    # Given a run whose population is evaluated, and one of whose children is not
    for node in CHILDREN:
        driver.set_signal("hold", "reflect", node)
    running = terminal.evolve()
    until(lambda: any(driver.began("reflect", node) for node in CHILDREN), 60)
    driver.clear_signal("hold", "reflect", CHILDREN[0])
    until(lambda: driver.ended("score", CHILDREN[0]), 60)
    # When it is interrupted
    running.send_signal(signal.SIGINT)
    status, said = ended(running)
    assert status == 130, said
    # Then its state, its best deltas and its processors are there, marked as of a generation in progress
    state = json.loads((terminal.output / "evolution_state.json").read_text())
    assert (state["generation"], state["best_individual"]) == (0, None)
    known = json.loads((terminal.output / "in_progress.json").read_text())
    assert (known["generation"], known["best_node"], known["best_fitness"]) == (0, "g0_pop0", 0.5)
    assert known["evaluations"] >= 5
    best = json.loads((terminal.output / "deltas_best.json").read_text())
    assert set(best.values()) == {0.0}
    for name in ("processor_best.py", "processor.py"):
        assert "DELTAS = {" in (terminal.output / name).read_text()
    assert "stopped    in a generation with" in terminal.run("status", str(terminal.output))[1]
    # When it goes on, then nothing is marked any more
    for node in CHILDREN:
        driver.clear_signal("hold", "reflect", node)
    status, said = terminal.run("retry", str(terminal.output))
    assert status == 0, said
    assert not (terminal.output / "in_progress.json").exists()
    assert driver.began("answer", "g0_pop0") == 1


def test_a_run_that_parks_in_a_later_generation_has_the_best_of_that_generation(
    terminal: Terminal, driver: Driver
) -> None:
    # Given a run whose second generation parks after a mutation that was better than all before
    driver.store.redis.set(signal_key("fitness", "score", "g1_child0_mut"), 0.75)
    driver.set_signal("fail", "reflect", "g1_child1_mut")
    status, said = ended(terminal.evolve())
    assert status == 3, said
    # Then the state is that of the start of the generation, and the best deltas are those of the mutation
    state = json.loads((terminal.output / "evolution_state.json").read_text())
    assert (state["generation"], state["best_fitness"]) == (1, 0.5)
    known = json.loads((terminal.output / "in_progress.json").read_text())
    assert (known["generation"], known["best_node"], known["best_fitness"]) == (1, "g1_child0_mut", 0.75)
    best = json.loads((terminal.output / "deltas_best.json").read_text())
    assert 0.25 in best.values()
    assert "0.25," in (terminal.output / "processor_best.py").read_text()
    # When it goes on, then the result is that of a run that did not park
    driver.clear_signal("fail", "reflect", "g1_child1_mut")
    status, said = terminal.run("retry", str(terminal.output))
    assert status == 0, said
    state = json.loads((terminal.output / "evolution_state.json").read_text())
    assert (state["generation"], state["best_fitness"]) == (2, 0.75)
    # And each evaluation is kept once with its deltas: three individuals and two children, before and after mutation
    kept = [json.loads(line) for line in (terminal.output / "individuals.jsonl").read_text().splitlines()]
    assert len(kept) == len({one["node"] for one in kept}) == 2 * (3 + 2 * 2)
    deltas = {one["node"]: sorted(one["deltas"].values()) for one in kept}
    assert (deltas["g0_child0_pre"], deltas["g0_child0_mut"][-1]) == ([0.0] * 12, 0.25)
