"""A run and its terminal: what failed is retried, with other settings too; one owner; an output or a terminal lost."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from farm_bench import Bench, until
from simulated_run import COMMAND, ROOT, Driver, evolve_command, signal_key

from orchestrator import console
from orchestrator.runs.folder import run_file
from tasks.store.ownership import read_lease

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
OPTIONS = {
    "POPULATION_SIZE": "3", "NGEN": "2", "CXPB": "0", "MUTPB": "1", "ELITISM_SIZE": "1", "EVALUATION_CACHE": "y",
    "DATA_PATH": "configs/data/sample.jsonl", "TRAINING": "0-1", "VALIDATION": "", "TEST": "",
}  # fmt: skip
FIRST, *CHILDREN = ("g0_pop0", "g0_child0_mut", "g0_child1_mut")


class Terminal:
    """Commands on a small run, each a process, and its folder."""

    def __init__(self, folder: Path, url: str) -> None:
        self.output = folder / "output"
        self.evolve = evolve_command(url, self.output, OPTIONS)
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.processes.append(process)
        return process

    def run(self, *command: str) -> tuple[int, str]:
        return ended(self.start(*command))

    def on_run(self, name: str, *arguments: str) -> tuple[int, str]:
        return self.run(*COMMAND, name, str(self.output), *arguments)

    def file(self, name: str) -> Any:
        return json.loads((self.output / name).read_text())

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.output / name).read_text().splitlines()]


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = process.communicate(timeout=120)
    return process.returncode, said


@pytest.fixture
def terminal(simulated_farm: Bench, driver: Driver, tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, simulated_farm.url)
    yield terminal
    for process in terminal.processes:
        process.kill()
        process.communicate()


@pytest.mark.long
def test_what_failed_is_listed_and_retried_by_name_beside_the_waiting_run(terminal: Terminal, driver: Driver) -> None:
    # Given a run that waits because the reflector failed for both children
    for node in CHILDREN:
        driver.set_signal("fail", "reflect", node)
    running = terminal.start(*terminal.evolve, "--retry-wait", "100")
    until((terminal.output / "run.json").exists, 60)
    until(lambda: len(driver.store.failed_tasks(run_file(terminal.output)["id"])) == len(CHILDREN), 60)
    status, said = terminal.on_run("failed", "--json")
    failed = sorted((one["node"], one["stage"], one["tries"]) for one in json.loads(said))  # listed by time
    assert (status, failed) == (0, [(node, "reflect", 1) for node in CHILDREN])
    # When a name that nothing failed by is retried, then nothing starts
    status, said = terminal.on_run("retry", "g9_child9_mut")
    assert (status, "no failed task is called 'g9_child9_mut'" in said) == (1, True)
    # When one is retried, then it alone is done
    for number, node in enumerate(CHILDREN):
        driver.clear_signal("fail", "reflect", node)
        status, said = terminal.on_run("retry", *CHILDREN[: 1 - number])
        assert (status, said.startswith(f"sent again: reflect of {node} (task ")) == (0, True)
        until(lambda node=node: driver.ended("score", node), 60)
        assert [driver.began("reflect", each) for each in CHILDREN] == [2, 1 + number]
    # And with the last one the run ends
    status, said = ended(running)
    assert status == 0, said
    assert terminal.on_run("failed", "--json")[1].strip() == "[]"


@pytest.mark.long
def test_a_parked_run_has_its_best_refuses_another_server_and_goes_on_with_another_reflector(
    terminal: Terminal, driver: Driver
) -> None:
    # Given a run whose second generation parks after a mutation that was better than all before
    version = signal_key("version", "server", "identity")
    driver.store.redis.set(version, "1.0")
    driver.store.redis.set(signal_key("fitness", "score", "g1_child0_mut"), 0.75)
    driver.set_signal("fail", "reflect", "g1_child1_mut")
    status, said = terminal.run(*terminal.evolve)
    assert status == console.PARKED, said
    # Then the state is that of the start of the generation, and the best deltas are those of the mutation
    state = terminal.file("evolution_state.json")
    assert (state["generation"], state["best_fitness"]) == (1, 0.5)
    assert 0.25 in terminal.file("deltas_best.json").values()
    assert "0.25," in (terminal.output / "processor_best.py").read_text()
    # What another server has answered since then is computed again
    driver.store.add_server(run_file(terminal.output)["id"], {"version": "1.1"})
    status, said = terminal.on_run("retry")
    assert status == console.PARKED and "a server that is not the run's has answered" in said, said
    kept = {name: (terminal.output / name).read_bytes() for name in ("config", "servers.json", "evolution_state.json")}
    driver.clear_signal("fail", "reflect", "g1_child1_mut")
    judged = {node: driver.began("judge", node) for node in (FIRST, *CHILDREN, "g1_child0_mut", "g1_child1_pre")}
    # When another server answers, then it is refused, both are named, and nothing is asked or changed
    driver.store.redis.set(version, "2.0")
    status, said = terminal.on_run("retry", "--set", "TARGET_CONCURRENCY=61")
    assert status == 1 and "CONFIG_SGLANG_COMMAND" in said and "version '1.0' is now '2.0'" in said, said
    assert kept == {name: (terminal.output / name).read_bytes() for name in kept}
    assert not (terminal.output / "settings_changes.json").exists()
    # When the server is as before and the reflector is another one, then nothing that was judged is judged again
    driver.store.redis.set(version, "1.0")
    status, said = terminal.on_run("retry", "--set", "REFLECTOR_MODEL=larger")
    assert (status, terminal.file("servers.json")["servers"]) == (0, [{"version": "1.0"}]), said
    assert {node: driver.began("judge", node) for node in judged} == judged
    assert terminal.lines("history.jsonl")[1]["settings_changed"] == {"REFLECTOR_MODEL": "larger"}
    # And the best deltas are those of the highest fitness, although the start wins
    state = terminal.file("evolution_state.json")
    assert (state["generation"], state["best_fitness"]) == (2, 0.75)
    assert terminal.file("report.json")["winner"] == "plain" and 0.25 in terminal.file("deltas_best.json").values()
    # And each evaluation is kept once with its deltas: three individuals and two children, before and after mutation
    kept_once = terminal.lines("individuals.jsonl")
    assert len(kept_once) == len({one["node"] for one in kept_once}) == 2 * (3 + 2 * 2)
    deltas = {one["node"]: sorted(one["deltas"].values()) for one in kept_once}
    assert (deltas["g0_child0_pre"], deltas["g0_child0_mut"][-1]) == ([0.0] * 12, 0.25)
    # And it holds none of its answers and verdicts any more: they expire
    kinds = ("answer", "verdict", "clustering")
    shared = [key for kind in kinds for key in driver.store.redis.scan_iter(match=f"whetstone:{kind}:*")]
    assert shared and all(driver.store.redis.ttl(key) > 0 for key in shared)
    # When all of that has expired, and the run goes on for another generation, then what is needed is made again
    driver.store.redis.delete(*shared)
    status, said = terminal.on_run("retry", "--set", "NGEN=3")
    assert (status, len(terminal.lines("history.jsonl"))) == (0, 3), said
    [clustering] = driver.store.redis.scan_iter(match="whetstone:clustering:*")
    assert driver.store.redis.hexists(clustering, "labels")
    # But what would make it another run is refused
    status, said = terminal.on_run("retry", "--set", "SEED=7", "--set", "JUDGE_MODEL=strict")
    assert (status, "CONFIG_SEED" in said, "CONFIG_JUDGE_MODEL" in said) == (1, True, True)


def test_a_run_has_one_owner_whichever_folder_it_is_started_from(terminal: Terminal, driver: Driver, run: Any) -> None:
    # Given a run at work, whose first answer takes its time, and a copy of its folder
    driver.set_signal("hold", "answer", FIRST)
    running, output = terminal.start(*terminal.evolve), terminal.output
    until(lambda: driver.began("answer", FIRST), 60)
    run_id, copy = run_file(output)["id"], output.with_name("copy")
    shutil.copytree(output, copy, ignore=shutil.ignore_patterns(".*"))  # not what is being written
    # When a second process starts it, then it is refused, says who works on it, and nothing is moved
    evolve = terminal.evolve[len(COMMAND) :]
    status, said = run(*evolve, "--fresh")
    assert (status, f"output is in use: process {running.pid} on host" in said) == (console.IN_USE, True), said
    assert not output.with_name("output.1").exists()
    # When the copy is started, cancelled or deleted, then it is refused
    for command in (("cancel",), ("runs", "--delete"), ("retry",)):
        status, said = run(*command, copy)
        assert (status, f"copy is a copy of {output}" in said) == (1, True), said
    # When a folder says that it is no copy, then the lease refuses it
    (copy / "run.json").write_text(json.dumps({**terminal.file("run.json"), "folder": str(copy)}))
    status, said = run(*[copy if word == str(output) else word for word in evolve])
    assert status == console.IN_USE and f"process {running.pid} on host" in said and f"folder {output}" in said
    # When the run goes on, then it ends
    driver.clear_signal("hold", "answer", FIRST)
    status, said = ended(running)
    assert (status, read_lease(driver.store.redis, run_id)) == (0, None), said


@pytest.mark.parametrize("pipeline", ["| head -n 1", ">&- 2> /dev/full"], ids=["unread", "closed and full"])
def test_a_run_whose_output_is_lost_is_finished(terminal: Terminal, pipeline: str) -> None:
    script = f'exec 3>&1; {{ "$@"; echo status $? >&3; }} {pipeline}'
    status, said = terminal.run("sh", "-c", script, "sh", *terminal.evolve)
    assert status == 0 and "status 0" in said and "Traceback" not in said, said
    assert terminal.file("evolution_state.json")["generation"] == 2 and (terminal.output / "report.txt").exists()


def test_a_run_whose_terminal_hangs_up_in_its_first_generation_leaves_what_is_known(
    terminal: Terminal, driver: Driver
) -> None:
    # Given a run in a terminal of its own, whose population is evaluated, and one of whose children is not
    for node in CHILDREN:
        driver.set_signal("hold", "reflect", node)
    pid, screen = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # it is ignored where the tests themselves run under nohup
        os.chdir(ROOT)
        os.execve(terminal.evolve[0], terminal.evolve, ENVIRONMENT)
    until(lambda: any(driver.began("reflect", node) for node in CHILDREN), 60)
    driver.clear_signal("hold", "reflect", CHILDREN[0])
    until(lambda: driver.ended("score", CHILDREN[0]), 60)
    # When the terminal is closed
    os.close(screen)
    # Then the run ends with the status of the signal, and its state, its best deltas and their processor are there
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == console.BY_SIGNAL + signal.SIGHUP
    state = terminal.file("evolution_state.json")
    assert (state["generation"], state["best_individual"]) == (0, None)
    assert set(terminal.file("deltas_best.json").values()) == {0.0}
    assert "DELTAS = {" in (terminal.output / "processor_best.py").read_text()
    # And when it goes on, then the population is not asked again
    driver.clear_signal("hold", "reflect", CHILDREN[1])
    status, said = terminal.on_run("retry")
    assert (status, driver.began("answer", FIRST)) == (0, 1), said
