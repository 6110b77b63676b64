"""A session on an embedded farm: the model on the CPU judges, rules criticise and reflect, and a verifier scores."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from dotted_values import with_value
from equal_runs import artifacts_of
from guide_values import guide_values, stage_a_row, write_rows
from spec_lines import lines_of

from orchestrator.guide.ingest import ingest
from orchestrator.guide.options import GuideOptions
from orchestrator.guide.progress import read_progress
from orchestrator.guide.prompt_files import Templates
from orchestrator.guide.session import Guider
from orchestrator.guide.settings import GuideSettings, guide_settings_from
from orchestrator.output import OutputFolder
from tasks.openai.provider import RULES

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def settings_of(folder: Path, run_id: str) -> GuideSettings:
    """Two batches of four tickets, without a preview."""
    rows = [
        stage_a_row(
            f"t{number}",
            label="pass" if number % 2 else "fail",
            per_image={"image_1": f"unit {number}: the wire is {'yellow' if number % 2 else 'black'}"},
        )
        for number in range(8)
    ]
    write_rows(folder / "tickets.jsonl", rows)
    first = {"cabinet": {"step": 0, "updated_at": "2026-01-01T00:00:00Z", "experiences": {"G0": "Read it."}}}
    (folder / "guidance.json").write_text(json.dumps(first))
    cells = [{"temperature": heat, "top_p": 0.9, "max_new_tokens": 34} for heat in (0.0, 0.8)]
    values = guide_values(folder)
    for name, value in {
        "sampler.group_batch_size": 4,
        "sampler.grid": cells,
        "holdout.fraction": 0.0,
        "runner.epochs": 1,
        "verifier": "lengths_of_answers:verify",
        "output.run_id": run_id,
    }.items():
        values = with_value(values, name, value)
    return guide_settings_from(values)


def run(folder: Path, run_id: str, workers: int = 1) -> tuple[Path, list[str]]:
    settings = settings_of(folder, run_id)
    output = OutputFolder(settings.folder)
    output.open()
    try:
        options = GuideOptions(farm_dir=str(folder / f"farm-{run_id}"), rollout_jobs=4 * workers, endpoint_jobs=2)
        return output.path, list(
            Guider(settings, options, ingest(settings), Templates.read(settings), output).run().lines
        )
    finally:
        output.close()


@pytest.fixture
def verifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of a user's own, importable here and in the processes of a farm."""
    code = "def verify(ticket, candidate):\n    return len(candidate['text']), [ticket['label']]\n"
    (tmp_path / "lengths_of_answers.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))


@pytest.mark.usefixtures("verifier")
def test_a_run_ends_with_all_its_artifacts_and_a_second_one_is_the_same(tmp_path: Path) -> None:
    first, lines = run(tmp_path, "first")
    assert lines[0] == f"critic: {RULES} (backend: endpoint)"
    assert "form of the answers: the server enforces the three lines" in lines
    progress = read_progress(first)
    assert (progress.done, progress.total, progress.is_finished) == (2, 2, True)
    stats = json.loads((first / "cabinet" / "stats.json").read_text())
    assert stats["format"]["rate"] == 1.0, "what the server enforces is never cut"
    assert stats["final"]["tickets"] == 8 and stats["is_finished"]
    assert len(lines_of(first / "cabinet" / "selections.jsonl")) == 8
    scored = lines_of(first / "cabinet" / "final" / "trajectories.jsonl")
    labels = {line["group_id"]: [line["label"]] for line in lines_of(first / "cabinet" / "final" / "selections.jsonl")}
    assert len(scored) == 8 * 4
    for line in scored:
        assert line["verifier_score"] == len(line["response_text"])
        assert line["verifier_tags"] == labels[line["group_id"]]
    # When the same runs on another farm with more jobs in flight, then it comes out the same
    second, _ = run(tmp_path, "second", workers=2)
    assert artifacts_of(first) == artifacts_of(second)
