"""What is read of an output folder: all of a finished run, as far as it goes of one at work, and what is damaged."""

from __future__ import annotations

import json
import shutil
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
    assert (results.kind, results.status.state) == ("evolve", "finished")
    found = [(one.node, dict(one.deltas), one.scratchpad) for one in results.individuals]
    recorded = lines(finished_run / "individuals.jsonl")
    assert found == [(line["node"], line["deltas"], line["scratchpad"]) for line in recorded]
    best = [line["best_ever"] for line in lines(finished_run / "history.jsonl")]
    assert [generation["best_ever"] for generation in results.generations] == best
    assert results.report is not None and results.front
    figures = json.loads((finished_run / "report.json").read_text())
    assert [one.name for one in results.report.systems] == [one["name"] for one in figures["systems"]]
    winner = results.report.winner
    assert json.loads((finished_run / "deploy" / "system.json").read_text())["name"] == winner != "plain"
    steering = read_steering(finished_run)
    assert steering.system == results.book.system(winner) and steering.check.tokenizer == "70"
    assert [len(comparison.before) for comparison in results.comparisons] == [4, 10, 8]
    assert results.best_deltas == json.loads((finished_run / "deltas_best.json").read_text())
    assert len(results.clusters) == 12 and [*map(len, results.question_hashes.values())] == [4, 10, 8]
    assert results.settings["NGEN"] == "2" and results.versions[0].code and results.usage and results.servers


def test_a_run_at_work_shows_the_generations_that_are_recorded(folder: Path) -> None:
    # Given a run that has written the individuals of a generation and not yet its line of the history
    for name in ("report.json", "front.json", "answers.json"):
        (folder / name).unlink()
    first, _ = (folder / "history.jsonl").read_text().splitlines(keepends=True)
    (folder / "history.jsonl").write_text(first)
    state = json.loads((folder / "evolution_state.json").read_text())
    (folder / "evolution_state.json").write_text(json.dumps({**state, "generation": 1}))
    # Then it has the first generation, without what comes later
    results = RunResults.open(folder)
    assert len(results.generations) == 1
    assert {one.generation for one in results.individuals} == {0}
    names = {one.node for one in results.individuals}
    assert all(edge["from"] in names and edge["to"] in names for edge in results.descent)
    assert (results.report, results.front, results.comparisons) == (None, (), ())
    # And so has one of another optimiser
    other = {"optimiser": "cma", "clusters": [], "state": {"generation": 1}}
    (folder / "evolution_state.json").write_text(json.dumps(other))
    assert len(RunResults.open(folder).generations) == 1


@pytest.mark.parametrize(
    ("name", "part", "text"),
    [
        ("history.jsonl", "generations", '{"generation": 0}\n'),
        ("individuals.jsonl", "individuals", '{"node": "g0_pop0"}\n'),
        ("systems.json", "report", '{"winner": 3}'),
        ("answers.json", "comparisons", '[{"name": "training set"}]'),
        ("deltas_best.json", "best_deltas", '{"0": "much"}'),
        ("clusters.json", "clusters", "{"),
        ("versions.json", "versions", '{"sessions": 1}'),
        ("questions.json", "question_hashes", "[]"),
        ("usage.json", "usage", "\x00"),
        ("config", "settings", "CONFIG_NGEN=1\nCONFIG_NGEN=2\n"),
    ],
)
def test_a_damaged_file_is_named_in_one_line(folder: Path, name: str, part: str, text: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(OutputError) as raised:
        getattr(RunResults.open(folder), part)
    assert name in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["history.jsonl", "individuals.jsonl", "systems.json", "evolution_state.json"])
def test_a_file_that_is_missing_or_has_lost_its_second_half_is_named_by_a_report(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = (folder / name).read_bytes()
    some_lines = b"".join(data.splitlines(keepends=True)[: data.count(b"\n") // 2])
    for left in (data[: len(data) // 2], some_lines, bytes(len(data)), None):
        (folder / name).write_bytes(left or b"")
        if left is None and name != "evolution_state.json":  # which a run that has not begun its search has not
            (folder / name).unlink()
        assert main(["report", str(folder)]) == console.WRONG
        said = capsys.readouterr().err
        assert name in said and len(said.splitlines()) == 1
