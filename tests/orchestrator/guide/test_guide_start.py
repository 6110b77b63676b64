"""A run begins or goes on, or what is wrong in its file, tickets, options and folder is named at once."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from dotted_values import with_value, without_key
from guided_world import MISSION, ROOT, guide_values, stage_a_row, write_guidance, write_rows

from orchestrator import console
from orchestrator.guide.guidance import read_guidance
from orchestrator.guide.inputs import TICKETS_FILE, MissionTickets, ingest, read_tickets
from orchestrator.guide.run import GUIDE, KIND, start_guide
from orchestrator.guide.settings import GuideOptions, guide_settings_from, read_guide_settings
from orchestrator.runs.folder import OutputError, OutputFolder
from orchestrator.runs.kinds import PROGRESS_FILE, ProgressFile
from orchestrator.settings import SettingsError

# The keys that a file must have, written down a second time, so that none can be dropped by mistake.
MANDATORY = """
stage_a_paths missions model.model_name_or_path guidance.path output.root critic.prompt_path
reflection.prompt_path reflection.batch_size reflection.apply_if_delta reflection.allow_uncertain
reflection.max_operations reflection.change_cap_per_epoch reflection.eligibility_policy reflection.all_wrong_strategy
""".split()  # noqa: SIM905  # readable


def labelled(count: int) -> list[dict[str, Any] | str]:
    return [stage_a_row(f"t{n:02}", label="fail" if n % 4 == 0 else "pass") for n in range(count)]


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    """Settings with which a run can begin."""
    write_guidance(tmp_path / "guidance.json", MISSION)
    write_rows(tmp_path / "tickets.jsonl", labelled(8))
    return guide_values(tmp_path)


def ingested(values: Mapping[str, Any], **options: Any) -> Path:
    """The folder after `--step ingest`."""
    settings = guide_settings_from(values)
    assert start_guide(settings, GuideOptions(**options), step="ingest").status == console.DONE
    return settings.folder


def refused(values: Mapping[str, Any], **options: Any) -> list[str]:
    """The keys and options that are named."""
    with pytest.raises(SettingsError) as error:
        ingested(values, **options)
    return [problem.partition(": ")[0] for problem in error.value.problems]


def test_the_mandatory_keys_are_these_and_no_others(values: dict[str, Any]) -> None:
    short: dict[str, Any] = {}
    for name in MANDATORY:
        assert refused(without_key(values, name)) == [name] == refused(with_value(values, name, None))
        section, _, key = name.rpartition(".")
        (short.setdefault(section, {}) if section else short)[key] = (values[section] if section else values)[key]
    settings = guide_settings_from(short)
    assert not settings.needs_endpoint and settings.gate == "preview"


def test_everything_wrong_is_told_at_once(tmp_path: Path) -> None:
    """The specification bounds how a critic is sampled, and the size of a batch unless the run is rapid."""
    wrong = {
        "missions": {}, "critic__taste": 1, "critic__max_candidates": 7, "critic__temperature": 0.05,
        "critic__top_p": 1.0, "holdout__fraction": 1.0, "selection__tie_break": "dice", "reflection__rapid_mode": "yes",
        "sampler__group_batch_size": 0, "reflection__batch_size": None,
    }  # fmt: skip
    cell = {f"sampler.grid.0.{name}" for name in ("temperature", "top_p", "max_new_tokens")}
    broken = guide_values(tmp_path, **wrong, sampler__grid=[{"temperature": -1, "top_p": "x"}])
    assert set(refused(broken)) == cell | {name.replace("__", ".") for name in wrong}
    sized = guide_values(tmp_path, sampler__group_batch_size=33, reflection__rapid_mode=False)
    assert refused(sized) == ["sampler.group_batch_size"]


def test_missions_have_names_that_folders_can_have_and_no_two_are_alike(values: dict[str, Any]) -> None:
    for name in ("BBU安装方式检查（正装）", "a b", "x.y", "é" * 60):
        assert guide_settings_from(with_value(values, "missions", {name: "f"})).missions
    for name in (" ", ".a", "a/b", "a\\b", "a\nb", "a\u2028b", "é" * 61):
        assert len(refused(with_value(values, "missions", {name: "f"}))) == 1, name
    assert refused(with_value(values, "missions", {"Cabinet": "f", "cabinet": "f"})) == ["missions.cabinet"]
    decomposed = guide_settings_from(with_value(values, "missions", {"e\u0301": "f"}))
    assert list(decomposed.missions) == ["é"]


def test_files_options_and_endpoint_that_do_not_fit_are_told_at_once(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # an endpoint of one's own needs a key, the rules an embedded farm, and a target that reflects needs neither
    assert refused(without_key(values, "endpoint")) == ["endpoint"]
    monkeypatch.delenv("MY_KEY", raising=False)
    own = {"model": "m", "api_base": "http://h:1/v1", "api_key_env": "MY_KEY"}
    assert refused(with_value(values, "endpoint", own)) == ["endpoint.api_key_env"]
    assert refused(values, farm="external") == ["endpoint.api_base"]
    alone = guide_values(tmp_path, critic__enabled=False, reflection__backend="target")
    assert not guide_settings_from(without_key(alone, "endpoint")).needs_endpoint
    broken = guide_values(
        tmp_path, missions={"cabinet": "f", "tower 2": "f"}, output__root="/dev/null", critic__prompt_path="none.txt",
        reflection__prompt_path=values["critic"]["prompt_path"], verifier="nobody:has_it",
    )  # fmt: skip
    assert refused(broken, sglang_url="http://h:1") == [
        "--sglang-url", "guidance.path", "output.root", "verifier", "critic.prompt_path", "reflection.prompt_path"
    ]  # fmt: skip


def test_the_shipped_settings_and_the_examples_of_the_docs_can_be_used(tmp_path: Path) -> None:
    assert not read_guide_settings(ROOT / "configs" / "guide_gpu.yaml").needs_endpoint
    text = (ROOT / "docs" / "guide.md").read_text()
    [settings, guidance] = (re.search(f"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("yaml", "json"))
    assert settings and guidance
    found = guide_settings_from(yaml.safe_load(settings[1]))
    (tmp_path / "guidance.json").write_text(guidance[1])
    assert [*read_guidance(tmp_path / "guidance.json")] == [*found.missions] == ["cabinet"]


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

    def found(**changes: Any) -> MissionTickets:
        write_rows(tmp_path / "tickets.jsonl", rows)
        return ingest(guide_settings_from(guide_values(tmp_path, **{"holdout__fraction": 0.3334, **changes})))[MISSION]

    rows = [*labelled(48), stage_a_row("x", stage_a_complete=False, per_image={"image_1": ""})]
    first = found()
    assert first.excluded == ("x",)
    assert first.counts() == {"training": 32, "holdout": 16, "excluded": 1, "pass": 36, "fail": 12}
    assert sum(ticket.label == "fail" for ticket in first.holdout) == 4
    assert {t.group_id for t in first.holdout}.isdisjoint(t.group_id for t in first.training)
    random.Random(1).shuffle(rows)
    assert found() == first
    assert found(holdout__seed=6).holdout != first.holdout
    assert found(holdout__fraction=0).holdout == ()


def test_a_mission_with_too_few_tickets_is_refused_by_name(values: dict[str, Any], tmp_path: Path) -> None:
    missions = {"cabinet": "f", "tower": "f", "roof": "f"}
    write_guidance(tmp_path / "guidance.json", *missions)
    row = stage_a_row("r", mission="roof", stage_a_complete=False)
    write_rows(tmp_path / "tickets.jsonl", [*labelled(3), row])
    few = guide_values(tmp_path, missions=missions, sampler__group_batch_size=4)
    assert refused(few) == ["sampler.group_batch_size", "missions.tower", "missions.roof"]
    write_rows(tmp_path / "tickets.jsonl", labelled(3))
    assert refused(with_value(values, "holdout.fraction", 0.1)) == ["holdout.fraction"]


def test_ingest_writes_tickets_shuffles_and_first_experiences_and_needs_no_farm(values: dict[str, Any]) -> None:
    run = ingested(values)
    assert not KIND.progress(run).is_finished
    assert json.loads((run / MISSION / "stats.json").read_text())["batches"]["done"] == 0
    assert len((run / MISSION / "epoch_1" / "shuffled_data.jsonl").read_text().splitlines()) == 5
    assert json.loads((run / MISSION / "guidance.json").read_text())[MISSION]["step"] == 0
    # of what may change on the way, nothing alters a result
    settings, options = GUIDE.load(run, ["farm.retry_wait_s=2", "farm.rollout_jobs=3"])
    assert settings == guide_settings_from(values)
    assert (options.retry_wait_s, options.rollout_jobs) == (2.0, 3)
    with pytest.raises(SettingsError, match=r"--set runner\.epochs"):
        GUIDE.load(run, ["runner.epochs=3"])


def test_the_same_again_goes_on_and_other_settings_and_files_are_named(values: dict[str, Any], tmp_path: Path) -> None:
    run = ingested(values)
    assert ingested(values) == run
    other = guide_values(tmp_path, sampler__samples_per_decode=4, runner__epochs=3)
    assert refused(other) == ["sampler.samples_per_decode", "runner.epochs"]
    write_rows(tmp_path / "tickets.jsonl", [*labelled(7), stage_a_row("t07", per_image={"image_1": "other"})])
    assert refused(values) == ["stage_a_paths"]
    (run / TICKETS_FILE).unlink()
    with pytest.raises(OutputError, match=r"tickets\.json is missing"):
        ingested(values)


def test_a_finished_run_is_refused_or_set_aside(values: dict[str, Any]) -> None:
    run = ingested(values)
    OutputFolder(run).write_json(PROGRESS_FILE, ProgressFile(done=1, total=1, is_finished=True, figures={}))
    assert refused(with_value(values, "runner.epochs", 3)) == ["output.fail_if_exists", "runner.epochs"]
    ingested(with_value(values, "output.fail_if_exists", False))
    assert KIND.progress(run.with_name("run.1")).is_finished and not KIND.progress(run).is_finished
