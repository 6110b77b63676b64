"""Tickets and candidates: seeds, signals, and a malformed answer that is kept and has no vote."""

from __future__ import annotations

import dataclasses
import json

import pytest

from tasks.common.validation import InvalidData, parse_json
from tasks.guide.candidates import (
    DecodeCell,
    Ticket,
    preview_seed,
    rollout_seed,
    samples_of,
)

WARM = DecodeCell(0.8, 0.95, 64)


def test_image_10_comes_after_image_2_also_after_json_has_sorted_them_as_text() -> None:
    one = Ticket("t-1", "cables", "fail", {"image_10": "c", "image_2": "b", "image_1": "a"}, "review", "2025-11-03")
    assert list(one.per_image) == ["image_1", "image_2", "image_10"]
    copy = parse_json(Ticket, json.dumps(dataclasses.asdict(one), sort_keys=True))
    assert (copy, list(copy.per_image)) == (one, list(one.per_image))


@pytest.mark.parametrize("key", ["image_", "image_x", "Image_1", "image_1a", "image_١"])
def test_an_image_without_a_number_is_refused(key: str) -> None:
    with pytest.raises(InvalidData):
        parse_json(Ticket, json.dumps({"group_id": "t", "mission": "m", "label": "pass", "per_image": {key: "text"}}))


def test_a_greedy_cell_gives_one_candidate() -> None:
    assert [samples_of(cell, 8) for cell in (DecodeCell(0.0, 1.0, 64), WARM)] == [1, 8]


def test_without_a_seed_run_epoch_ticket_and_cell_each_make_another_one() -> None:
    ways = [(1, 1, "a", 0), (2, 1, "a", 0), (1, 2, "a", 0), (1, 1, "b", 0), (1, 1, "a", 1)]
    seeds = [rollout_seed(WARM, *way) for way in ways]
    assert len(set(seeds)) == len(ways) and seeds == [rollout_seed(WARM, *way) for way in ways]
    assert all(0 <= seed < 2**31 - 2**16 for seed in seeds), "the largest sample's seed fits in 31 bits"
    seeded = dataclasses.replace(WARM, seed=17)
    assert {rollout_seed(seeded, *way) for way in ways} == {17}


def test_previews_have_seeds_of_their_own() -> None:
    assert len({preview_seed(WARM, run, group, cell) for run in (1, 2) for group in "ab" for cell in (0, 1)}) == 8
    assert preview_seed(WARM, 1, "a", 0) not in {rollout_seed(WARM, 1, epoch, "a", 0) for epoch in range(50)}
    seeded = dataclasses.replace(WARM, seed=17)
    assert len({preview_seed(seeded, 1, group, 0) for group in ("a", "b")} | {17}) == 3
