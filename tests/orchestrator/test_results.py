"""What is read of an output folder: all of a finished run, as far as it goes of one at work, and what is damaged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from orchestrator import console
from orchestrator.cli import main
from orchestrator.export.targets import read_steering
from orchestrator.results import RunResults
from orchestrator.runs.folder import OutputError


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def folder(finished_run: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return shutil.copytree(finished_run, tmp_path / "copy")


def test_a_finished_run_is_read_whole(finished_run: Path) -> None:
    results = RunResults.open(finished_run)
    recorded = lines(finished_run / "individuals.jsonl")
    assert (results.kind, results.status.state) == ("evolve", "finished")
    assert [one.node for one in results.individuals] == [line["node"] for line in recorded]
    assert [dict(one.deltas) for one in results.individuals] == [line["deltas"] for line in recorded]
    assert [one.scratchpad for one in results.individuals] == [line["scratchpad"] for line in recorded]
    history = lines(finished_run / "history.jsonl")
    assert [generation["best_ever"] for generation in results.generations] == [line["best_ever"] for line in history]
    assert [generation["seconds"] for generation in results.generations] == [line["seconds"] for line in history]
    assert {edge["kind"] for edge in results.descent} == {"parent", "mutation"}  # each arm had one turn
    assert results.report is not None and results.front
    figures = json.loads((finished_run / "report.json").read_text())
    assert results.report.conclusion.sentence == figures["conclusion"]["sentence"]
    assert [one.name for one in results.report.systems] == [one["name"] for one in figures["systems"]]
    assert [one.name for one in results.book.systems] == [one.name for one in results.report.systems]
    winner = results.report.winner
    assert json.loads((finished_run / "deploy" / "system.json").read_text())["name"] == winner != "plain"
    steering = read_steering(finished_run)
    assert steering.system == results.book.system(winner) and steering.check.tokenizer == "70"
    assert [len(comparison.before) for comparison in results.comparisons] == [4, 10, 8]
    assert results.best_deltas == json.loads((finished_run / "deltas_best.json").read_text())
    assert [cluster.id for cluster in results.clusters] == [str(i) for i in range(12)]
    assert results.settings["NGEN"] == "2" and results.versions[0].code
    assert {name: len(ids) for name, ids in results.question_hashes.items()} == {
        "training": 4,
        "validation": 10,
        "test": 8,
    }
    assert results.usage and results.servers


def test_a_run_at_work_shows_the_generations_that_are_recorded(folder: Path) -> None:
    # Given a run that has written the individuals of a generation and not yet its line of the history
    for name in ("report.json", "front.json", "answers.json"):
        (folder / name).unlink()
    first, _ = (folder / "history.jsonl").read_text().splitlines(keepends=True)
    (folder / "history.jsonl").write_text(first)
    state = json.loads((folder / "evolution_state.json").read_text())
    (folder / "evolution_state.json").write_text(json.dumps({**state, "generation": 1}))
    # When it is read
    results = RunResults.open(folder)
    # Then it has the first generation, without what comes later
    assert len(results.generations) == 1
    assert {one.generation for one in results.individuals} == {0}
    names = {one.node for one in results.individuals}
    assert all(edge["from"] in names and edge["to"] in names for edge in results.descent)
    assert (results.report, results.front, results.comparisons) == (None, (), ())


DAMAGE = {
    "history.jsonl": ("generations", '{"generation": 0}\n'),
    "individuals.jsonl": ("individuals", '{"node": "g0_pop0"}\n'),
    "systems.json": ("report", '{"winner": 3}'),
    "answers.json": ("comparisons", '[{"name": "training set"}]'),
    "deltas_best.json": ("best_deltas", '{"0": "much"}'),
    "clusters.json": ("clusters", "{"),
    "versions.json": ("versions", '{"sessions": 1}'),
    "questions.json": ("question_hashes", "[]"),
    "usage.json": ("usage", "\x00"),
    "config": ("settings", "CONFIG_NGEN=1\nCONFIG_NGEN=2\n"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_named_in_one_line(folder: Path, name: str) -> None:
    part, text = DAMAGE[name]
    (folder / name).write_text(text)
    results = RunResults.open(folder)
    with pytest.raises(OutputError) as raised:
        getattr(results, part)
    assert name in str(raised.value) and "\n" not in str(raised.value)
    assert results.run


HALVES: dict[str, Callable[[bytes], bytes]] = {
    "bytes": lambda data: data[: len(data) // 2],
    "lines": lambda data: b"".join(data.splitlines(keepends=True)[: data.count(b"\n") // 2]),
    "zeros": lambda data: bytes(len(data)),
}


SEARCHED = ("history.jsonl", "individuals.jsonl", "systems.json")


@pytest.mark.parametrize(
    ("name", "half"), [*product((*SEARCHED, "evolution_state.json"), HALVES), *((name, "none") for name in SEARCHED)]
)
def test_a_file_that_is_missing_or_has_lost_its_second_half_is_named_by_a_report(
    folder: Path, name: str, half: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = (folder / name).read_bytes()
    (folder / name).unlink()
    if half in HALVES:
        (folder / name).write_bytes(HALVES[half](data))
    for command in ("report", "compare"):
        assert main([command, str(folder)]) == console.WRONG
        said = capsys.readouterr().err
        assert name in said and len(said.splitlines()) == 1


def test_the_generations_that_another_optimisers_state_counts_are_read(folder: Path) -> None:
    state = {"optimiser": "cma", "clusters": [], "state": {"generation": 1}}
    (folder / "evolution_state.json").write_text(json.dumps(state))
    assert len(RunResults.open(folder).generations) == 1
