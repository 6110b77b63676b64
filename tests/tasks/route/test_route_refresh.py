"""The refresh of directions and bands: with which knobs, and what a collapse freezes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from toy_training import SETTINGS, trained
from toy_world import ToyWorld

from tasks.route import refresh
from tasks.route.policy import Policy
from tasks.route.state import TrajectoryState, deployed_knobs
from tasks.route.trajectory import Trajectory


def test_a_refresh_is_taken_with_the_splits_own_knobs_and_the_quarantine_off(
    policy: Policy, finished: TrajectoryState, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair_sides, used = refresh.pair_sides, list[torch.Tensor]()

    def watched(policy: Any, pairs: Any, knobs: torch.Tensor, reduction: Any) -> Any:
        used.append(knobs)
        return pair_sides(policy, pairs, knobs, reduction)

    monkeypatch.setattr(refresh, "pair_sides", watched)
    refresh.refresh_splits(replace(SETTINGS, splits=("real",)), policy, ToyWorld(), finished)
    kept, whole = deployed_knobs(finished, "real"), finished.whole.value
    assert not torch.equal(kept, whole)
    # The second is for the overlap with the direction that has the quarantine on, which decides nothing.
    assert len(used) == 2 and torch.equal(used[0], kept) and torch.equal(used[1], whole)


def test_a_collapse_freezes_what_was_taken_before_routing(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(SETTINGS, splits=("real",))
    before = trained(policy, settings, steps=1).state.splits["real"].extraction
    pair_sides = refresh.pair_sides

    def weakened(*given: Any) -> Any:
        """The hack's gradient becomes the honest one's, as it does when hacks are suppressed."""
        sides = pair_sides(*given)
        return replace(sides, rej=sides.cho + 1e-4 * sides.rej + 0.0 * sides.cho)

    trajectory = Trajectory(settings, policy, ToyWorld())
    for step in range(2 * settings.refresh_every + 1):
        if step == settings.refresh_every:
            monkeypatch.setattr(refresh, "pair_sides", weakened)
        trajectory.step()
    split = trajectory.state.splits["real"]
    assert split.frozen and split.extraction is not None and before is not None
    assert torch.equal(split.extraction.direction, before.direction)
    events = [event for row in trajectory.state.rows for event in row["events"]]
    assert sum("collapse" in event for event in events) == 1
    assert trajectory.state.rows[-1]["splits"]["real"]["f_mean"] > 0


@pytest.mark.parametrize(("hack", "honest", "warns"), [(1.6, 0.45, True), (0.3, 0.7, True), (0.8, 0.45, False)])
def test_the_surprise_of_both_sides_of_the_pairs_is_told_at_the_start(
    policy: Policy, monkeypatch: pytest.MonkeyPatch, hack: float, honest: float, warns: bool
) -> None:
    pair_sides = refresh.pair_sides
    told = {"rej_surprise": hack, "cho_surprise": honest}
    monkeypatch.setattr(refresh, "pair_sides", lambda *given: replace(pair_sides(*given), **told))
    state = trained(policy, replace(SETTINGS, splits=("real",), refresh_every=1), steps=2).state
    [said] = [event for row in state.rows for event in row["events"] if event.startswith("pairs: ")]
    assert said in state.rows[0]["events"]
    assert said.startswith(f"pairs: {hack:.2f} nats a token for hacks, {honest:.2f} for honest completions")
    assert ("a factor of 2" in said) is warns
