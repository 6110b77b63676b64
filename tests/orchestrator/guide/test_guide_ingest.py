"""From Stage-A's files to tickets: bad lines are named, and which tickets are held out is the seed's alone."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from dotted_values import with_value
from guide_values import guide_values, stage_a_row, write_rows

from orchestrator.guide.inputs import epoch_batches, ingest, read_tickets
from orchestrator.guide.settings import GuideSettings, guide_settings_from
from orchestrator.settings import SettingsError


def settings_of(folder: Path, rows: list[dict[str, Any] | str], **changes: Any) -> GuideSettings:
    write_rows(folder / "tickets.jsonl", rows)
    values = guide_values(folder)
    for name, value in changes.items():
        values = with_value(values, name.replace("__", "."), value)
    return guide_settings_from(values)


def refused(paths: list[Path]) -> list[str]:
    with pytest.raises(SettingsError) as error:
        read_tickets([str(path) for path in paths], ["cabinet"])
    return [problem.replace(f"{paths[0].parent}/", "") for problem in error.value.problems]


def labelled(count: int) -> list[dict[str, Any] | str]:
    return [stage_a_row(f"t{n:02}", label="fail" if n % 4 == 0 else "pass") for n in range(count)]


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
    problems = refused([write_rows(tmp_path / "tickets.jsonl", rows)])
    assert [line.split(": ")[2] for line in problems] == [f"line {number}" for number in (2, 3, 4, 5, 7, 8, 9)]
    fields = ("JSON", "label", "stage_a_complete", "'t1'", "group_id", "per_image", "'tower'")
    assert all(name in line for name, line in zip(fields, problems, strict=True))
    assert all(name in problems[1] for name in ("per_image.img", "per_image.image_1"))
    # also a file that is not there, and one that comes twice
    twice = write_rows(tmp_path / "twice.jsonl", [stage_a_row("a")])
    found = refused([twice, twice, tmp_path / "none.jsonl"])
    assert [line.partition(": ")[2].partition(":")[0] for line in found] == ["twice.jsonl", "none.jsonl"]


def test_a_ticket_that_stage_a_has_not_completed_is_excluded(tmp_path: Path) -> None:
    gaps = [stage_a_row("x", stage_a_complete=False, per_image={"image_1": "", "image_2": "seen"}),
            stage_a_row("y", stage_a_complete=False, per_image={})]  # fmt: skip
    found = ingest(settings_of(tmp_path, [*labelled(8), *gaps]))["cabinet"]
    assert found.excluded == ("x", "y")
    assert found.counts() == {"training": 6, "holdout": 2, "excluded": 2, "pass": 6, "fail": 2}


def test_held_out_tickets_are_a_share_of_each_label_whatever_the_order_of_the_lines(tmp_path: Path) -> None:
    rows = labelled(48)
    found = ingest(settings_of(tmp_path, rows, holdout__fraction=0.3334))["cabinet"]
    assert len(found.holdout) == 16
    assert sum(ticket.label == "fail" for ticket in found.holdout) == 4
    assert {t.group_id for t in found.holdout}.isdisjoint(t.group_id for t in found.training)
    random.Random(1).shuffle(rows)
    assert ingest(settings_of(tmp_path, rows, holdout__fraction=0.3334)) == {"cabinet": found}
    others = ingest(settings_of(tmp_path, rows, holdout__fraction=0.3334, holdout__seed=6))["cabinet"]
    assert others.holdout != found.holdout
    assert ingest(settings_of(tmp_path, rows, holdout__fraction=0))["cabinet"].holdout == ()


def test_a_mission_with_too_few_tickets_is_refused_by_name_and_numbers(tmp_path: Path) -> None:
    missions = {"cabinet": "f", "tower": "f", "roof": "f"}
    rows = [*labelled(3), stage_a_row("r", mission="roof", stage_a_complete=False)]
    with pytest.raises(SettingsError) as error:
        ingest(settings_of(tmp_path, rows, missions=missions, sampler__group_batch_size=4))
    keys = [problem.partition(": ")[0] for problem in error.value.problems]
    assert keys == ["sampler.group_batch_size", "missions.tower", "missions.roof"]
    assert "4 is more than the 2 training tickets of cabinet" in error.value.problems[0]
    with pytest.raises(SettingsError, match=r"holdout\.fraction"):
        ingest(settings_of(tmp_path, labelled(3), holdout__fraction=0.1))


def test_an_epoch_is_a_shuffle_by_its_number_and_drops_the_last_tickets(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, labelled(9), holdout__fraction=0, sampler__group_batch_size=4)
    tickets = ingest(settings)["cabinet"].training
    expected = sorted(ticket.group_id for ticket in tickets)
    random.Random(11 + 2).shuffle(expected)
    second = epoch_batches(tickets, settings, 2)
    assert [t.group_id for batch in second.batches for t in batch] == expected[:8]
    assert [t.group_id for t in second.dropped] == expected[8:]
    assert epoch_batches(reversed(tickets), settings, 2) == second != epoch_batches(tickets, settings, 1)
    # the shuffle on disk is a file of Stage-A
    lines = list(second.lines())
    assert [(line["epoch"], line["batch"]) for line in lines] == [(2, 3)] * 4 + [(2, 4)] * 4 + [(2, None)]
    again = write_rows(tmp_path / "again.jsonl", [json.dumps(line) for line in lines])
    assert read_tickets([str(again)], ["cabinet"])[0]["cabinet"] == list(tickets)
