"""What a page shows of an evolution that has not ended, and which prompts it holds where they are too many."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from page_reader import records

from orchestrator.output import OutputFolder
from orchestrator.page.evolution import ancestors, evolution_data
from orchestrator.page.html import page_data
from orchestrator.page.packing import TextPack
from orchestrator.reflector_calls import candidate_of
from orchestrator.results import RunResults

LATER = ("report.json", "pareto.json", "answers.json", "system_prompt.txt")


@pytest.fixture
def folder(finished_run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished_run, tmp_path / "copy")


def test_a_run_at_work_shows_its_prompts_and_its_generations(folder: Path) -> None:
    for name in LATER:
        (folder / name).unlink()
    [run] = page_data([RunResults.open(folder)])["runs"]
    assert (run["digest"]["state"], run["digest"]["verdict"], run["conclusion"]) == ("stopped", None, None)
    assert [system["name"] for system in run["systems"]] == ["none", "short"]
    baselines = RunResults.open(folder).baselines
    assert baselines is not None
    for shown, system in zip(run["systems"], baselines.systems, strict=True):
        assert system.validation is not None
        assert shown["validation"]["mean_tokens"] == pytest.approx(system.validation.mean_tokens)
        assert shown["validation"]["correct"] == system.validation.right and not shown["is_winner"]
    assert len(run["generations"]) == 2 and run["individuals"]["rows"] and run["answers"] == []


def test_a_run_that_has_only_begun_is_shown(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name not in ("run.json", "config") and path.is_file():
            path.unlink()
    [run] = page_data([RunResults.open(folder)])["runs"]
    assert (run["systems"], run["generations"], run["individuals"]["rows"], run["best_deltas"]) == ([], [], [], None)
    assert run["digest"]["best_fitness"] is None and run["settings"]


def test_where_prompts_are_too_many_those_of_the_winner_s_ancestors_are_held(folder: Path) -> None:
    # Given a mutated child as the winner, and a call for each child
    report = json.loads((folder / "report.json").read_text())
    report["winner"] = [one.name for one in RunResults.open(folder).individuals if one.stage == "mut"][-1]
    (folder / "report.json").write_text(json.dumps(report))
    results = RunResults.open(folder)
    candidates = sorted({candidate_of(one.name) for one in results.individuals if one.stage != "pop"})
    kept = sorted(ancestors(results) & set(candidates))
    assert kept and len(kept) < len(candidates)
    for name in candidates:
        text = f"# mutation\n===== system =====\n{name}\n===== user =====\n{name * 100}\n===== reply =====\n{name}!\n"
        OutputFolder(folder).write(f"reflector_prompts/gen_0_mutation_{name}_mut.txt", text)
    # When there is room for those of the ancestors
    texts = TextPack()
    room = sum(len(name) * 102 + 1 for name in kept)
    shown = records(evolution_data(RunResults.open(folder), texts, room)["calls"])
    # Then they are there, and of the others the file is named
    assert [one["candidate"] for one in shown if one["texts"]] == kept
    assert {one["candidate"] for one in shown} == set(candidates)
    assert all(one["file"].startswith("gen_0_mutation_g") for one in shown)
