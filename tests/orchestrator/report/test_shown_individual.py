"""One individual of a run, as `orchestrator show` prints it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from orchestrator.cli import main
from orchestrator.output import OutputError
from orchestrator.report.individual import ClusterDelta, ShownIndividual, individual_lines, shown_individual
from orchestrator.results import RunResults


def test_every_evaluated_individual_can_be_shown_with_what_its_file_has(finished_run: Path) -> None:
    results = RunResults.open(finished_run)
    recorded = [json.loads(line) for line in (finished_run / "individuals.jsonl").read_text().splitlines()]
    assert {one["node"] for one in recorded} == {
        one["node"]
        for line in (finished_run / "history.jsonl").read_text().splitlines()
        for one in (*json.loads(line)["population"], *json.loads(line)["offspring"])
    }
    for one in recorded:
        shown = shown_individual(results, one["node"])
        assert {cluster.id: cluster.delta for cluster in shown.clusters} == one["deltas"]
        assert (shown.scratchpad, shown.fitness, shown.target) == (one["scratchpad"], one["fitness"], one["target"])
        text = "\n".join(individual_lines(shown, 80))
        assert one["node"] in text and f"{one['mean_tokens']:.1f} tokens an answer" in text
        assert all(f"{delta:+.3f}  cluster {cluster}" in text for cluster, delta in one["deltas"].items())


def test_descent_and_scratchpad_are_shown(finished_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["show", str(finished_run), "g0_child0_mut"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith("g0_child0_mut: a child after its mutation of generation 0, which changed cluster 0\n")
    assert "  from       g0_child0_pre\n" in said
    assert "\nScratchpad\n  reflected\n" in said
    with pytest.raises(SystemExit):
        main(["show", str(finished_run), "g0_child0_mut", "--json"])
    shown = json.loads(capsys.readouterr().out)
    assert (shown["parents"], shown["scratchpad"]) == (["g0_child0_pre"], "reflected")


def test_what_is_not_known_is_said(finished_run: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(finished_run, tmp_path / "copy")
    for name in ("individuals.jsonl", "clusters.json"):
        (copied / name).unlink()
    lines = list(individual_lines(shown_individual(RunResults.open(copied), "g0_pop0"), 80))
    assert lines[-1] == "  not known: individuals.jsonl is missing"
    with pytest.raises(OutputError, match="has no individual 'g9_pop9'"):
        shown_individual(RunResults.open(copied), "g9_pop9")


def test_descriptions_keep_to_the_width_and_tokens_stand_below_one_that_names_none() -> None:
    counted = 'Digits and arithmetic symbols (34.6 % of verbose answers): "2", "0", "3", "1"'
    clusters = (ClusterDelta("1", 0.5, counted, ("2", "0"), 4), ClusterDelta("12", -1.0, "hedges", ("may", " be"), 2))
    one = ShownIndividual(
        name="g0_pop0", generation=0, stage="pop", fitness=1.0, mean_tokens=9.0, correctness=0.5, is_elite=False,
        target=None, skip_reason="", merge_fallback="", parents=(), children=(), files=(), scratchpad="",
        clusters=clusters,
    )  # fmt: skip
    lines = list(individual_lines(one, 40))
    assert lines[-6:] == [
        "  1   +0.500  Digits and arithmetic",
        "              symbols (34.6 % of verbose",
        '              answers): "2", "0", "3",',
        '              "1"',
        "  12  -1.000  hedges",
        "              'may' ' be'",
    ]
