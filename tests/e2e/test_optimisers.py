"""Each optimiser on the farm: a run that is killed twice and continues ends as one that nothing happened to.

The target is simulated (simulated_target.py), so a run takes seconds; everything else is real.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from run_folder import RunFolder, finish, start, wait_until

SERVER = Path(__file__).with_name("simulated_target.py")
KILLED_BEFORE_WRITE = """
import os, signal, sys
from orchestrator.cli import main
name = sys.argv.pop(1)
def hook(event, arguments):
    if event == "os.rename" and os.path.basename(os.fsdecode(arguments[1])) == name:
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
sys.exit(main())
"""
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
    "TEST": "test",
    "POPULATION_SIZE": "4",
    "NGEN": str(GENERATIONS),
}
PROMPTS = """
prompts:
  - {name: "plain", text: ""}
  - {name: "concise", text: "Be concise."}
  - {name: "few words", text: "Answer in few words."}
"""
SAME_FILES = (
    "evolution_state.json",
    "individuals.jsonl",
    "deltas_best.json",
    "deltas_current.json",
    "processor.py",
    "processor_best.py",
    "cluster_sides.json",
    "answers.json",
    "front.json",
    "systems.json",
)
OPTIMISERS = ("cma", "reflective", "lineage", "random")


def kill_before_write(run: RunFolder, file: str) -> None:
    """Start a session that kills itself when it would put this file, which is written, in its place."""
    python, _, _, *arguments = run.command()  # behind `python -m orchestrator`
    done = finish(start([python, "-c", KILLED_BEFORE_WRITE, file, *arguments]))
    assert done.returncode == -9, done.stdout
    wait_until(lambda: not run.processes(), "the killed orchestrator's farm to end", 30)


@pytest.mark.parametrize("name", [OPTIMISERS[0], *(pytest.param(o, marks=pytest.mark.long) for o in OPTIMISERS[1:])])
def test_a_killed_run_ends_as_an_undisturbed_one(tmp_path: Path, name: str) -> None:
    calm, killed = (make_run(tmp_path / which, name) for which in ("calm", "killed"))
    try:
        # Given a finished run
        finish_run(calm)
        # When another run of the same settings is killed, and started again
        for file in ("evolution_state.json", "answers.json"):  # between a generation and its state; after the test
            kill_before_write(killed, file)
        finish_run(killed)
        # Then all that is written of the search is the same, and nothing was answered twice
        check_same(killed, calm)
        assert killed.repeated(twice=calm.repeated()) == []
        check_files(calm, name)
    finally:
        for run in (calm, killed):
            run.clear()


def make_run(folder: Path, optimiser: str) -> RunFolder:
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
    run = RunFolder(folder)
    server = f"{sys.executable} {SERVER} --token-s 0.001 --log {run.farm / 'logs' / LOG}"
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


def check_same(run: RunFolder, other: RunFolder) -> None:
    """Both have the same files, but for times, the runs' ids, and which session has asked for an answer."""
    for file in SAME_FILES:
        assert (run.output / file).read_bytes() == (other.output / file).read_bytes(), file
    assert comparable_report(run) == comparable_report(other)
    assert comparable_history(run) == comparable_history(other)


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
