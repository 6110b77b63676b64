"""Each optimiser on the farm: a run that is killed at seven moments and continues ends as one that nothing happened to.

The target is simulated (benchmarks/simulated_target.py), so a run takes seconds; everything else is real.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from killing import kill_moments
from run_folder import ROOT, RunFolder, finish, process_of, start, wait_until

from orchestrator.runs.vectors import BOTH

SERVER = ROOT / "benchmarks" / "simulated_target.py"
KILLED_BEFORE_WRITE = Path(__file__).with_name("killed_before_write.py")
LOG = "target_requests.jsonl"
GENERATIONS = 3
SETTINGS = {
    "DEVICE": "cuda",
    "TARGET_MAX_NEW_TOKENS": "128",
    "JUDGE": "exact_number",
    "CLUSTERS_BY": "waste",
    "INITIAL_DELTAS_PATH": "zero",
    "OBJECTIVE": "constrained",
    "TRAINING": "train[0:32]",
    "VALIDATION": "validation",
    "POPULATION_SIZE": "4",
    "NGEN": str(GENERATIONS),
}
PROMPTS = """
base: "Answer the question."
prompts:
  - {name: "none", text: ""}
  - {name: "concise", text: "Be concise."}
  - {name: "few words", text: "Answer in few words."}
"""
SAME_FILES = (
    "evolution_state.json",
    "evolution_tree.json",
    "individuals.jsonl",
    "deltas_best.json",
    "deltas_current.json",
    "processor.py",
    "processor_best.py",
    "cluster_sides.json",
    "answers.json",
    "pareto.json",
    "measurements.jsonl",
    "system_prompt.txt",
)
OPTIMISERS = ("cma", "reflective", "lineage", "random")


class KilledRun(RunFolder):
    """A run that a test kills, at moments that it finds in a run of the same settings that has ended (`calm`)."""

    @property
    def hold(self) -> Path:
        return self.folder / "hold.json"

    def kill_when(self, condition: Callable[[], object], what: str) -> None:
        """Start a session, and kill the orchestrator as soon as the condition holds."""
        process = self.start()
        wait_until(lambda: condition() or process.poll() is not None, what)
        assert process.poll() is None, f"the run ended before {what}:\n{process.communicate()[0]}"
        self.kill(process)

    def kill(self, process: subprocess.Popen[str]) -> None:
        process.kill()
        process.communicate()
        self.wait_for_end()

    def wait_for_end(self) -> None:
        wait_until(lambda: not self.processes(), "the killed orchestrator's farm to end", 30)

    def in_the_prompts(self, calm: RunFolder) -> None:
        self.kill_when(lambda: len(self.answered(LOG)) >= 4, "answers to some prompts")

    def while_the_vocabulary_is_clustered(self, calm: RunFolder) -> None:
        self.kill_when(self._clusters, "the clustering")

    def in_a_line_of_vectors(self, calm: RunFolder) -> None:
        """In the third line, whose plans have the names of the other lines' and other vectors."""
        vectors = json.loads((calm.output / "vectors.json").read_text())
        self.hold.write_text(json.dumps(vectors["best"][BOTH]["deltas"]))
        held = self._held()
        self.kill_when(lambda: self._held() > held, "a vector of the third line")
        self.hold.unlink()

    def in_a_generation(self, calm: RunFolder) -> None:
        """Some of its candidates are complete, and one waits for the target.  The gpu worker is killed first."""
        self.hold.write_text(json.dumps(last_deltas(calm, generation=1)))
        held = self._held()
        process = self.start()
        wait_until(lambda: self._held() > held or process.poll() is not None, "the last candidate of a generation")
        worker = process_of(self, "gpu")
        assert worker is not None
        held = self._held()
        worker.kill()
        wait_until(lambda: self._held() > held or process.poll() is not None, "the same candidate on a new worker")
        self.kill(process)
        self.hold.unlink()

    def between_a_generation_and_its_state(self, calm: RunFolder) -> None:
        self.kill_before_write("evolution_state.json")

    def before_the_files_of_the_last_generation(self, calm: RunFolder) -> None:
        self.kill_when(lambda: generation_of(self) == GENERATIONS, "the state after the last generation")

    def after_the_test_set_was_asked(self, calm: RunFolder) -> None:
        self.kill_before_write("answers.json")

    def kill_before_write(self, file: str) -> None:
        """Start a session that kills itself when it would write this file."""
        _, _, _, *arguments = self.command()  # behind `python -m orchestrator`
        done = finish(start([sys.executable, str(KILLED_BEFORE_WRITE), file, *arguments]))
        assert done.returncode == -9, done.stdout
        self.wait_for_end()

    def _clusters(self) -> bool:
        def is_clustering(process: psutil.Process) -> bool:
            try:
                return "tasks.gpu.clustering" in process.cmdline()
            except psutil.Error:
                return False

        return any(map(is_clustering, self.processes()))

    def _held(self) -> int:
        """How many requests have waited so far."""
        log = self.farm / "logs" / LOG
        calls = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return sum(call["status"] == 102 for call in calls)


KILLS = (
    KilledRun.in_the_prompts,
    KilledRun.while_the_vocabulary_is_clustered,
    KilledRun.in_a_line_of_vectors,
    KilledRun.in_a_generation,
    KilledRun.between_a_generation_and_its_state,
    KilledRun.before_the_files_of_the_last_generation,
    KilledRun.after_the_test_set_was_asked,
)


@pytest.mark.parametrize("name", [OPTIMISERS[0], *(pytest.param(o, marks=pytest.mark.long) for o in OPTIMISERS[1:])])
def test_a_killed_run_ends_as_an_undisturbed_one(tmp_path: Path, name: str) -> None:
    calm, killed = (make_run(tmp_path / which, name) for which in ("calm", "killed"))
    try:
        # Given a finished run
        finish_run(calm)
        # When another run of the same settings is killed, and started again
        for kill in KILLS if kill_moments(1) > 1 else (KilledRun.between_a_generation_and_its_state,):
            kill(killed, calm)
        finish_run(killed)
        # Then all that is written of the search is the same, and nothing was answered twice
        check_same(killed, calm)
        assert killed.repeated() == []
        check_files(calm, name)
    finally:
        for run in (calm, killed):
            run.clear()


@pytest.mark.long
@pytest.mark.parametrize("name", OPTIMISERS)
def test_two_runs_with_the_same_seed_end_in_the_same_state(tmp_path: Path, name: str) -> None:
    first, second = (make_run(tmp_path / which, name) for which in ("first", "second"))
    try:
        for run in (first, second):
            finish_run(run)
        check_same(second, first)
    finally:
        for run in (first, second):
            run.clear()


def make_run(folder: Path, optimiser: str) -> KilledRun:
    folder.mkdir()
    data, prompts = folder / "questions.jsonl", folder / "prompts.yaml"
    prompts.write_text(PROMPTS)
    sets = {"train": 32, "validation": 6, "test": 6}
    rows = [
        {"id": f"{split}{i}", "question": f"{split} {i}: how many?", "answer": str(1 + i % 2), "split": split}
        for split, count in sets.items()
        for i in range(count)
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = KilledRun(folder)
    server = f"{sys.executable} {SERVER} --token-s 0.001 --log {run.farm / 'logs' / LOG} --hold {run.hold}"
    run.options = {
        **SETTINGS,
        "OPTIMISER": optimiser,
        "DATA_PATH": str(data),
        "PROMPTS_PATH": str(prompts),
        "SGLANG_COMMAND": server,
    }
    return run


def finish_run(run: RunFolder) -> None:
    done = run.run()
    assert done.returncode == 0, done.stdout


def generation_of(run: RunFolder) -> int:
    """How many generations the run's state has behind it."""
    if not (run.output / "evolution_state.json").exists():
        return 0
    state = json.loads(run.state())
    return int(state.get("state", state)["generation"])


def last_deltas(run: RunFolder, generation: int) -> list[float]:
    """The deltas of the last candidate of a generation that no generation before has had."""
    lines = [json.loads(line) for line in (run.output / "individuals.jsonl").read_text().splitlines()]
    deltas = {number: [line["deltas"] for line in lines if line["generation"] == number] for number in range(3)}
    earlier = [d for number in range(generation) for d in deltas[number]]
    last = [d for d in deltas[generation] if d not in earlier][-1]
    return [last[cluster] for cluster in sorted(last, key=int)]


def check_same(run: RunFolder, other: RunFolder) -> None:
    """Both have the same files, but for times, the runs' ids, and which session has asked for an answer."""
    for file in SAME_FILES:
        assert (run.output / file).read_bytes() == (other.output / file).read_bytes(), file
    assert comparable_report(run) == comparable_report(other)
    assert comparable_history(run) == comparable_history(other)
    for file in ("baselines.json", "vectors.json"):
        assert comparable_measurements(run, file) == comparable_measurements(other, file)


def comparable_report(run: RunFolder) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((run.output / "report.json").read_text())
    assert report["test_uses"] == 1
    return {name: value for name, value in report.items() if name != "run"}


def comparable_history(run: RunFolder) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run.output / "history.jsonl").read_text().splitlines()]
    return [
        {**without(line, "seconds", "tokens", "calls", "cost_usd"), "evaluations": sum(line["evaluations"].values())}
        for line in lines
    ]


def comparable_measurements(run: RunFolder, file: str) -> dict[str, Any]:
    """What the file says, but for which evaluations were found in the store."""
    found = json.loads((run.output / file).read_text())
    return {**found, "evaluations": sum(found["evaluations"].values())}


def without(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


def check_files(run: RunFolder, name: str) -> None:
    """The state names its optimiser, and history, pictures and the processor of the best are there."""
    state = json.loads(run.state())
    history = [json.loads(line) for line in (run.output / "history.jsonl").read_text().splitlines()]
    assert [line["generation"] for line in history] == list(range(GENERATIONS))
    if name == "reflective":
        assert (state["generation"], history[-1]["best_ever"]) == (GENERATIONS, state["best_fitness"])
    else:
        assert (state["optimiser"], state["state"]["generation"]) == (name, GENERATIONS)
        assert history[-1]["best_ever"] == state["state"]["best"]["fitness"]
    files = {path.name for path in run.output.iterdir()}
    assert {"fitness.png", "evolution_lengths.png", "evolution_tree.png", "pareto.png", "report.txt"} <= files
    prompts = list((run.output / "reflector_prompts").glob("*")) if "reflector_prompts" in files else []
    assert bool(prompts) == (name in ("reflective", "lineage"))
