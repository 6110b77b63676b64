"""A run that begins where another one was."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from farm_bench import Bench
from simulated_run import Driver
from simulated_signals import signal_key

from orchestrator import api
from orchestrator.evolve.fork import find_fork, resolve_fork
from orchestrator.evolve.resume import saved_settings
from orchestrator.results import RunResults
from orchestrator.runs.folder import OutputError
from orchestrator.settings import SettingsError

CONFIG = Path(__file__).parents[3] / "configs" / "embedded.config"
QUESTIONS = [
    *({"question": f"What is {n} plus {n}?", "answer": 2 * n, "split": "train"} for n in range(1, 5)),
    *({"question": f"What is {n} plus 1?", "answer": n + 1, "split": "validation"} for n in range(10, 14)),
]
PARENT = {
    "population_size": 3, "ngen": 3, "cxpb": 0.6, "mutpb": 1.0, "elitism_size": 1, "seed": 7,
    "lambda_shortness": 0.4, "lambda_correctness": 0.6, "prompts_path": None, "evaluation_cache": True,
    "training": "train", "validation": "validation", "test": "",
}  # fmt: skip


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def deltas_of(records: list[dict[str, Any]]) -> list[tuple[float, ...]]:
    return [tuple(record["deltas"].values()) for record in records]


def test_a_fork_from_generation_2_repeats_no_evaluation_that_is_known(
    simulated_farm: Bench, driver: Driver, tmp_path: Path
) -> None:
    # given a finished run whose answers the farm still has
    for signal in ("vary", "reuse"):
        driver.store.redis.set(signal_key(signal, "answer", "each"), 1)
    origin, output, questions = tmp_path / "origin", tmp_path / "forked", tmp_path / "questions.jsonl"
    questions.write_text("\n".join(map(json.dumps, QUESTIONS)))
    parent = api.evolve(CONFIG, output=origin, data_path=questions, farm=simulated_farm.url, quiet=True, **PARENT)
    known = set(deltas_of(lines(origin / "individuals.jsonl")))
    # when it is forked from generation 2 with another weight of shortness
    fork = f"{origin}@2"
    run = api.evolve(output=output, fork=fork, lambda_shortness=0.7, lambda_correctness=0.3, quiet=True)
    # then the first population is that of generation 2, with its scratchpads, the best first
    recorded = [one for one in lines(origin / "individuals.jsonl") if one["node"].startswith("g2_pop")]
    recorded.sort(key=lambda one: -one["fitness"])
    forked = lines(output / "individuals.jsonl")
    first = [one for one in forked if one["node"].startswith("g0_pop")]
    assert [(one["deltas"], one["scratchpad"]) for one in first] == [
        (one["deltas"], one["scratchpad"]) for one in recorded
    ]
    # and by the new weights
    assert [one["fitness"] for one in first] != [one["fitness"] for one in recorded]
    assert [one["mean_tokens"] for one in first] == [one["mean_tokens"] for one in recorded]
    # and its first generation has computed only vectors that its origin never evaluated
    new = {deltas for deltas in deltas_of([one for one in forked if one["generation"] == 0]) if deltas not in known}
    counts = run.generations[0]["evaluations"]
    assert counts["computed"] == len(new) and counts["cached"] == len(first) + sum(
        deltas in known for deltas in deltas_of([one for one in forked if one["node"].startswith("g0_child")])
    )
    # and it is a run of its own, which says where it began and goes on without its origin
    assert run.run != parent.run and run.fork is not None
    assert (run.fork["run"], run.fork["at"]) == (parent.run, "generation 2")
    shutil.rmtree(origin)
    moved = output.rename(tmp_path / "moved")
    assert saved_settings(moved).lambda_shortness == 0.7
    [arm] = json.loads((moved / "fork.json").read_text())["arms"].values()
    assert arm["population"] == [{"deltas": one["deltas"], "scratchpad": one["scratchpad"]} for one in recorded]


def test_what_a_fork_begins_with(finished_run: Path, tmp_path: Path) -> None:
    results = RunResults.open(finished_run)
    state = json.loads((finished_run / "evolution_state.json").read_text())
    for spec in (f"{finished_run}", f"{finished_run}@2"):
        end = find_fork(spec)
        for name, values in ((state["arm"], state), *state["others"].items()):
            arm = end.content["arms"][name]
            assert arm["clustering"] == next(arm.clustering for arm in results.book.arms if arm.name == name)
            assert arm["population"] == values["population"]
    assert set(end.content["arms"]) == {"plain", "short"}
    # An individual begins in its own arm
    one, individual = find_fork(f"{finished_run}@g1_child0_mut"), results.individual("g1_child0_mut")
    [(name, arm)] = one.content["arms"].items()
    assert (one.at, name) == ("g1_child0_mut", individual.arm)
    assert arm["population"] == [{"deltas": individual.deltas, "scratchpad": individual.scratchpad}]
    # a folder may have an @ in its name
    copied = shutil.copytree(finished_run, tmp_path / "run@1")
    assert find_fork(str(copied)).at == "the end of 2 generations"
    assert find_fork(f"{copied}@1").at == "generation 1"


@pytest.mark.parametrize(
    ("place", "fault"),
    [
        ("@3", "has generations 0 to 1, and 2 for its end; there is no 3"),
        ("@g7_pop0", "has no individual 'g7_pop0'"),
        ("x", "holds no run"),
    ],
)
def test_a_place_that_a_run_does_not_have_is_refused(finished_run: Path, place: str, fault: str) -> None:
    with pytest.raises(OutputError, match=fault):
        find_fork(f"{finished_run}{place}")


def halved(content: bytes) -> bytes:
    return content[: len(content) // 2]


def without_last_line(content: bytes) -> bytes:
    return b"".join(content.splitlines(keepends=True)[:-1])


@pytest.mark.parametrize("place", ["", "@0", "@g0_pop0"])
@pytest.mark.parametrize("name", ["history.jsonl", "individuals.jsonl", "evolution_state.json", "systems.json"])
@pytest.mark.parametrize("damage", [halved, without_last_line, lambda content: bytes(len(content))])
def test_a_run_of_which_a_file_is_damaged_is_not_forked(
    finished_run: Path, tmp_path: Path, damage: Any, name: str, place: str
) -> None:
    file = shutil.copytree(finished_run, tmp_path / "run") / name
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(OutputError, match=re.escape(name)):
        find_fork(f"{tmp_path / 'run'}{place}")


@pytest.mark.parametrize(
    ("overrides", "fault"),
    [
        ({}, "CONFIG_OUTPUT_DIR: is that of the run to fork; give another with --output"),
        ({"OUTPUT_DIR": "o", "CLUSTERS": "8"}, "CONFIG_CLUSTERS: is 8, and 10 in .*: a fork has the clu"),
        ({"OUTPUT_DIR": "o", "CONFIG_INITIAL_DELTAS_PATH": "zero"}, "CONFIG_INITIAL_DELTAS_PATH: --fork says what"),
    ],
)
def test_settings_that_do_not_fit_a_fork_are_refused(finished_run: Path, overrides: dict[str, str], fault: str) -> None:
    for given in (overrides, [f"{name}={value}" for name, value in overrides.items()]):
        with pytest.raises(SettingsError, match=fault):
            resolve_fork(f"{finished_run}@1", None, given)
