"""A run and what is there already: it goes on with the same settings and tickets, and refuses all else by name."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from dotted_values import with_value
from guide_values import ROOT, guide_values, stage_a_row, write_rows

from orchestrator import console
from orchestrator.guide.inputs import TICKETS_FILE, ingest
from orchestrator.guide.run import GUIDE, KIND, start_guide
from orchestrator.guide.settings import GuideOptions, guide_settings_from, read_guide_settings
from orchestrator.runs.folder import OutputError, OutputFolder
from orchestrator.runs.kinds import PROGRESS_FILE, ProgressFile, kind_of
from orchestrator.settings import SettingsError


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    entry = {"step": 0, "updated_at": "", "experiences": {"G0": "look at every image"}}
    (tmp_path / "guidance.json").write_text(json.dumps({"cabinet": entry}))
    write_rows(tmp_path / "tickets.jsonl", [stage_a_row(f"t{n}", label="fail" if n % 2 else "pass") for n in range(8)])
    return guide_values(tmp_path)


def ingested(values: dict[str, Any]) -> tuple[Path, str]:
    """The folder after `--step ingest`, and what was said."""
    said = io.StringIO()
    settings = guide_settings_from(values)
    with contextlib.redirect_stderr(said):
        assert start_guide(settings, GuideOptions(), step="ingest").status == console.DONE
    return settings.folder, said.getvalue()


def refused(values: dict[str, Any]) -> list[str]:
    """The keys that a start is refused for."""
    with pytest.raises(SettingsError) as error:
        start_guide(guide_settings_from(values), GuideOptions(), step="ingest")
    return [problem.partition(": ")[0] for problem in error.value.problems]


def test_ingest_writes_tickets_shuffles_and_first_experiences_and_needs_no_farm(values: dict[str, Any]) -> None:
    folder, _ = ingested(values)
    assert kind_of(folder) is KIND
    assert json.loads((folder / "cabinet" / "stats.json").read_text())["batches"]["done"] == 0
    assert KIND.progress(folder).is_finished is False
    shuffled = (folder / "cabinet" / "epoch_1" / "shuffled_data.jsonl").read_text().splitlines()
    assert [json.loads(line)["batch"] for line in shuffled] == [1, 1, 2, 2, 3, 3]
    assert json.loads((folder / "cabinet" / "guidance.json").read_text())["cabinet"]["step"] == 0
    assert GUIDE.load(folder)[0] == guide_settings_from(values)


def test_the_same_again_goes_on_and_other_settings_are_named(values: dict[str, Any]) -> None:
    folder, _ = ingested(values)
    assert ingested(values)[0] == folder
    other = with_value(with_value(values, "runner.epochs", 3), "sampler.samples_per_decode", 4)
    assert refused(other) == ["sampler.samples_per_decode", "runner.epochs"]


def test_other_tickets_or_templates_and_a_lost_holdout_are_refused(values: dict[str, Any], tmp_path: Path) -> None:
    own = tmp_path / "mine.txt"
    own.write_bytes((ROOT / "configs" / "guide" / "reflection.txt").read_bytes())
    values = with_value(values, "reflection.prompt_path", str(own))
    folder, _ = ingested(values)
    own.write_text(own.read_text() + "Be brief.\n")
    rows = [stage_a_row(f"t{n}", label="fail" if n % 2 else "pass") for n in range(8)]
    write_rows(tmp_path / "tickets.jsonl", [*rows[:3], {**rows[3], "per_image": {"image_1": "other"}}, *rows[4:]])
    assert refused(values) == ["reflection.prompt_path", "stage_a_paths"]
    (folder / TICKETS_FILE).unlink()
    with pytest.raises(OutputError, match=r"tickets\.json is missing"):
        start_guide(guide_settings_from(values), GuideOptions(), step="ingest")


def test_a_finished_run_is_refused_or_set_aside(values: dict[str, Any]) -> None:
    folder, _ = ingested(values)
    OutputFolder(folder).write_json(PROGRESS_FILE, ProgressFile(done=1, total=1, is_finished=True, figures={}))
    assert refused(with_value(values, "runner.epochs", 3)) == ["output.fail_if_exists", "runner.epochs"]
    _, said = ingested(with_value(values, "output.fail_if_exists", False))
    aside = folder.with_name("run.1")
    assert str(aside) in said
    assert KIND.progress(aside).is_finished and not KIND.progress(folder).is_finished


def test_only_what_alters_no_result_may_change_on_the_way(values: dict[str, Any]) -> None:
    folder, _ = ingested(values)
    _, options = GUIDE.load(folder, ["farm.retry_wait_s=2", "farm.rollout_jobs=3"])
    assert (options.retry_wait_s, options.rollout_jobs) == (2.0, 3)
    with pytest.raises(SettingsError, match=r"--set runner\.epochs"):
        GUIDE.load(folder, ["runner.epochs=3"])


def test_the_shipped_settings_are_those_of_make_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    settings = read_guide_settings(Path("configs/guide.yaml"))
    assert [(len(one.training), len(one.holdout), len(one.excluded)) for one in ingest(settings).values()] == [
        (32, 16, 2), (32, 16, 2)
    ]  # fmt: skip
    assert settings.gate == "preview" and settings.needs_endpoint
    assert not read_guide_settings(Path("configs/guide_gpu.yaml")).needs_endpoint
