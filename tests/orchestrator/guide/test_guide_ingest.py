"""From Stage-A's files to the folder of a run: bad lines are named, the seed alone decides who is held out, and a run
goes on with the same settings and tickets only.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from guided_world import guide_values, stage_a_row, write_guidance, write_rows

from orchestrator import console
from orchestrator.guide.inputs import TICKETS_FILE, MissionTickets, ingest, read_tickets
from orchestrator.guide.run import GUIDE, KIND, start_guide
from orchestrator.guide.settings import GuideOptions, GuideSettings, guide_settings_from
from orchestrator.runs.folder import OutputError, OutputFolder
from orchestrator.runs.kinds import PROGRESS_FILE, ProgressFile, kind_of
from orchestrator.settings import SettingsError

Rows = list[dict[str, Any] | str]


def labelled(count: int) -> Rows:
    return [stage_a_row(f"t{n:02}", label="fail" if n % 4 == 0 else "pass") for n in range(count)]


def settings_of(folder: Path, rows: Rows, **changes: Any) -> GuideSettings:
    write_rows(folder / "tickets.jsonl", rows)
    return guide_settings_from(guide_values(folder, **changes))


def cabinet(folder: Path, rows: Rows, **changes: Any) -> MissionTickets:
    return ingest(settings_of(folder, rows, **changes))["cabinet"]


def test_all_bad_lines_and_duplicates_are_named_at_once(tmp_path: Path) -> None:
    rows = [
        stage_a_row("t1"),
        "{not json",
        stage_a_row("t2", label=None, per_image={"img": "x", "image_1": ""}),
        stage_a_row("t3", label="maybe", stage_a_complete="yes"),
        stage_a_row("t1", label="fail"),
        "",
        '{"group_id": "t4", "group_id": "t5"}',
        stage_a_row("t6", per_image={}),
        stage_a_row("t7", mission="tower"),
    ]
    path = write_rows(tmp_path / "tickets.jsonl", rows)
    with pytest.raises(SettingsError) as error:
        read_tickets([str(path), str(tmp_path / "none.jsonl")], ["cabinet"])
    problems = [problem.replace(f"stage_a_paths: {tmp_path}/", "") for problem in error.value.problems]
    named = [f"tickets.jsonl: line {number}: " for number in (2, 3, 4, 5, 7, 8, 9)] + ["none.jsonl"]
    fields = ("JSON", "label", "stage_a_complete", "'t1'", "group_id", "per_image", "'tower'", "")
    for line, place, name in zip(problems, named, fields, strict=True):
        assert line.startswith(place) and name in line
    assert all(name in problems[1] for name in ("per_image.img", "per_image.image_1"))


def test_held_out_tickets_are_a_share_of_each_label_whatever_the_order_of_the_lines(tmp_path: Path) -> None:
    """Those that Stage-A has not completed take part in nothing."""
    gap = stage_a_row("x", stage_a_complete=False, per_image={"image_1": "", "image_2": "seen"})
    rows, third = [*labelled(48), gap], {"holdout__fraction": 0.3334}
    found = cabinet(tmp_path, rows, **third)
    assert found.excluded == ("x",)
    assert found.counts() == {"training": 32, "holdout": 16, "excluded": 1, "pass": 36, "fail": 12}
    assert sum(ticket.label == "fail" for ticket in found.holdout) == 4
    assert {t.group_id for t in found.holdout}.isdisjoint(t.group_id for t in found.training)
    random.Random(1).shuffle(rows)
    assert cabinet(tmp_path, rows, **third) == found
    assert cabinet(tmp_path, rows, **third, holdout__seed=6).holdout != found.holdout
    assert cabinet(tmp_path, rows, holdout__fraction=0).holdout == ()


def test_a_mission_with_too_few_tickets_is_refused_by_name(tmp_path: Path) -> None:
    missions = {"cabinet": "f", "tower": "f", "roof": "f"}
    rows = [*labelled(3), stage_a_row("r", mission="roof", stage_a_complete=False)]
    with pytest.raises(SettingsError) as error:
        ingest(settings_of(tmp_path, rows, missions=missions, sampler__group_batch_size=4))
    keys = [problem.partition(": ")[0] for problem in error.value.problems]
    assert keys == ["sampler.group_batch_size", "missions.tower", "missions.roof"]
    with pytest.raises(SettingsError, match=r"holdout\.fraction"):
        cabinet(tmp_path, labelled(3), holdout__fraction=0.1)


# a run and what is there already


def ingested(folder: Path, **changes: Any) -> Path:
    """The folder after `--step ingest`."""
    settings = guide_settings_from(guide_values(folder, **changes))
    assert start_guide(settings, GuideOptions(), step="ingest").status == console.DONE
    return settings.folder


def refused(folder: Path, **changes: Any) -> list[str]:
    """The keys that a start is refused for."""
    with pytest.raises(SettingsError) as error:
        ingested(folder, **changes)
    return [problem.partition(": ")[0] for problem in error.value.problems]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_guidance(tmp_path / "guidance.json", "cabinet")
    write_rows(tmp_path / "tickets.jsonl", labelled(8))
    return ingested(tmp_path)


def test_ingest_writes_tickets_shuffles_and_first_experiences_and_needs_no_farm(run: Path, tmp_path: Path) -> None:
    assert kind_of(run) is KIND and not KIND.progress(run).is_finished
    assert json.loads((run / "cabinet" / "stats.json").read_text())["batches"]["done"] == 0
    assert len((run / "cabinet" / "epoch_1" / "shuffled_data.jsonl").read_text().splitlines()) == 6
    assert json.loads((run / "cabinet" / "guidance.json").read_text())["cabinet"]["step"] == 0
    # of what may change on the way, nothing alters a result
    settings, options = GUIDE.load(run, ["farm.retry_wait_s=2", "farm.rollout_jobs=3"])
    assert settings == guide_settings_from(guide_values(tmp_path))
    assert (options.retry_wait_s, options.rollout_jobs) == (2.0, 3)
    with pytest.raises(SettingsError, match=r"--set runner\.epochs"):
        GUIDE.load(run, ["runner.epochs=3"])


def test_the_same_again_goes_on_and_other_settings_and_files_are_named(run: Path, tmp_path: Path) -> None:
    assert ingested(tmp_path) == run
    other = {"sampler__samples_per_decode": 4, "runner__epochs": 3}
    assert refused(tmp_path, **other) == ["sampler.samples_per_decode", "runner.epochs"]
    write_rows(tmp_path / "tickets.jsonl", [*labelled(7), stage_a_row("t07", per_image={"image_1": "other"})])
    assert refused(tmp_path) == ["stage_a_paths"]
    (run / TICKETS_FILE).unlink()
    with pytest.raises(OutputError, match=r"tickets\.json is missing"):
        ingested(tmp_path)


def test_a_finished_run_is_refused_or_set_aside(run: Path, tmp_path: Path) -> None:
    OutputFolder(run).write_json(PROGRESS_FILE, ProgressFile(done=1, total=1, is_finished=True, figures={}))
    assert refused(tmp_path, runner__epochs=3) == ["output.fail_if_exists", "runner.epochs"]
    ingested(tmp_path, output__fail_if_exists=False)
    assert KIND.progress(run.with_name("run.1")).is_finished and not KIND.progress(run).is_finished
