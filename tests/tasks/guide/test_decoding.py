"""Seeds: new ones each epoch, the same ones in each preview, and one candidate where sampling changes nothing."""

from __future__ import annotations

import dataclasses

from tasks.guide.decoding import DecodeCell, preview_seed, rollout_seed, samples_of

WARM = DecodeCell(0.8, 0.95, 64)


def test_a_greedy_cell_gives_one_candidate() -> None:
    assert [samples_of(cell, 8) for cell in (DecodeCell(0.0, 1.0, 64), WARM)] == [1, 8]


def test_a_cell_with_a_seed_has_it_in_every_rollout() -> None:
    cell = dataclasses.replace(WARM, seed=17)
    assert {rollout_seed(cell, 1, epoch, group, 0) for epoch in (1, 2) for group in ("a", "b")} == {17}


def test_without_a_seed_run_epoch_ticket_and_cell_each_make_another_one() -> None:
    ways = [(1, 1, "a", 0), (2, 1, "a", 0), (1, 2, "a", 0), (1, 1, "b", 0), (1, 1, "a", 1)]
    seeds = [rollout_seed(WARM, *way) for way in ways]
    assert len(set(seeds)) == len(ways)
    assert seeds == [rollout_seed(WARM, *way) for way in ways]
    # and the largest sample's seed fits in 31 bits
    assert all(0 <= seed < 2**31 - 2**16 for seed in seeds)


def test_previews_have_seeds_of_their_own() -> None:
    # equal in all epochs by what they depend on, and another for each run, ticket and cell
    assert len({preview_seed(WARM, run, group, cell) for run in (1, 2) for group in "ab" for cell in (0, 1)}) == 8
    assert preview_seed(WARM, 1, "a", 0) not in {rollout_seed(WARM, 1, epoch, "a", 0) for epoch in range(50)}
    seeded = dataclasses.replace(WARM, seed=17)
    assert len({preview_seed(seeded, 1, group, 0) for group in ("a", "b")} | {17}) == 3
