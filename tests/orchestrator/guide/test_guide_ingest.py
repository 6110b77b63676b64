"""Which tickets are held out, and the order of the others: every draw is the seed's alone."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import pytest
from dotted_values import with_value
from guide_values import guide_values, stage_a_row, write_rows

from orchestrator.guide.ingest import (
    MissionTickets,
    epoch_batches,
    ingest,
    one_sided_holdouts,
    shuffle_lines,
    shuffled,
    ticket_counts,
)
from orchestrator.guide.settings import GuideSettings, guide_settings_from
from orchestrator.guide.stage_a import read_tickets
from orchestrator.settings import SettingsError


def settings_of(folder: Path, rows: list[dict[str, Any] | str], **changes: Any) -> GuideSettings:
    write_rows(folder / "tickets.jsonl", rows)
    values = guide_values(folder)
    for name, value in changes.items():
        values = with_value(values, name.replace("__", "."), value)
    return guide_settings_from(values)


def refused(settings: GuideSettings) -> list[str]:
    with pytest.raises(SettingsError) as error:
        ingest(settings)
    return [problem.replace(settings.stage_a_paths[0], "FILE") for problem in error.value.problems]


def gated(settings: GuideSettings) -> GuideSettings:
    """The same with previews, which settings of a file have with batches of 32 or 64 tickets only."""
    return dataclasses.replace(settings, reflection=dataclasses.replace(settings.reflection, rapid_mode=False))


def labelled(count: int, **changes: Any) -> list[dict[str, Any] | str]:
    return [stage_a_row(f"t{n:02}", label="fail" if n % 4 == 0 else "pass", **changes) for n in range(count)]


def test_a_ticket_that_stage_a_has_not_completed_is_excluded_with_its_reason(tmp_path: Path) -> None:
    gaps = [stage_a_row("x", stage_a_complete=False, per_image={"image_1": "", "image_2": "seen"}),
            stage_a_row("y", stage_a_complete=False, per_image={})]  # fmt: skip
    found = ingest(settings_of(tmp_path, [*labelled(8), *gaps]))["cabinet"]
    assert [(one.group_id, one.reason, one.place[-1]) for one in found.excluded] == [
        ("x", "stage_a_incomplete", "9"), ("y", "stage_a_incomplete", "0")
    ]  # fmt: skip
    assert ticket_counts(found) == {"training": 6, "holdout": 2, "excluded": 2, "pass": 6, "fail": 2}


def test_held_out_tickets_are_a_share_of_each_label_whatever_the_order_of_the_lines(tmp_path: Path) -> None:
    rows = labelled(48)
    settings = settings_of(tmp_path, rows, holdout__fraction=0.3334)
    found = ingest(settings)["cabinet"]
    assert len(found.holdout) == 16
    assert sum(ticket.label == "fail" for ticket in found.holdout) == 4
    assert {t.group_id for t in found.holdout}.isdisjoint(t.group_id for t in found.training)
    random.Random(1).shuffle(rows)
    assert ingest(settings_of(tmp_path, rows, holdout__fraction=0.3334)) == {"cabinet": found}
    others = ingest(settings_of(tmp_path, rows, holdout__fraction=0.3334, holdout__seed=6))["cabinet"]
    assert others.holdout != found.holdout


def test_without_a_fraction_nothing_is_held_out(tmp_path: Path) -> None:
    found = ingest(settings_of(tmp_path, labelled(8), holdout__fraction=0))["cabinet"]
    assert (len(found.training), found.holdout) == (8, ())


def test_held_out_tickets_of_one_label_are_told_with_what_the_gate_cannot_see(tmp_path: Path) -> None:
    def told(label: str, **changes: Any) -> list[str]:
        rows = [stage_a_row(f"t{number}", label=label) for number in range(8)]
        settings = gated(settings_of(tmp_path, rows, **changes))
        return one_sided_holdouts(ingest(settings), settings)

    assert told("pass") == [
        "warning: all 2 held-out tickets of cabinet are labelled pass: holdout.max_false_pass_rise decides nothing, "
        "and an edit with which everything passes may be applied"
    ]
    assert [line.partition("labelled ")[2] for line in told("fail")] == [
        "fail: an edit with which everything fails may be applied"
    ]
    assert told("pass", holdout__fraction=0) == []
    both = gated(settings_of(tmp_path, labelled(16)))
    assert one_sided_holdouts(ingest(both), both) == []


def test_a_mission_with_too_few_tickets_is_refused_by_name_and_numbers(tmp_path: Path) -> None:
    missions = {"cabinet": "f", "tower": "f", "roof": "f"}
    rows = [*labelled(3), stage_a_row("r", mission="roof", stage_a_complete=False)]
    settings = settings_of(tmp_path, rows, missions=missions, sampler__group_batch_size=4)
    assert refused(settings) == [
        "sampler.group_batch_size: 4 is more than the 2 training tickets of cabinet (1 of its 3 are held out)",
        "missions.tower: the files of stage_a_paths have no ticket of it",
        "missions.roof: the files of stage_a_paths have no ticket of it, only 1 that Stage-A has not completed",
    ]
    lost = settings_of(tmp_path, labelled(3), holdout__fraction=0.1)
    assert refused(lost) == ["holdout.fraction: 0.1 of the 3 tickets of cabinet holds none out"]


def test_an_epoch_is_a_shuffle_by_its_number_and_drops_the_last_tickets(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, labelled(9), holdout__fraction=0, sampler__group_batch_size=4)
    tickets = ingest(settings)["cabinet"].training
    expected = sorted(ticket.group_id for ticket in tickets)
    random.Random(11 + 2).shuffle(expected)
    second = epoch_batches(tickets, settings, 2)
    assert [t.group_id for batch in second.batches for t in batch] == expected[:8]
    assert [t.group_id for t in second.dropped] == expected[8:]
    assert shuffled(reversed(tickets), 11, 1) != shuffled(tickets, 11, 2)


def test_the_shuffle_on_disk_is_a_file_of_stage_a(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, labelled(5, label_source="audit"), holdout__fraction=0)
    tickets: MissionTickets = ingest(settings)["cabinet"]
    lines = list(shuffle_lines(epoch_batches(tickets.training, settings, 2)))
    assert [(line["epoch"], line["batch"]) for line in lines] == [(2, 3), (2, 3), (2, 4), (2, 4), (2, None)]
    again = write_rows(tmp_path / "again.jsonl", [json.dumps(line) for line in lines])
    assert read_tickets([str(again)], ["cabinet"])[0]["cabinet"] == list(tickets.training)
