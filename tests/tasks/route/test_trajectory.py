"""The loop on the toy world: what decides nothing, whose rows train, refreshes, how splits share, and resuming."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from toy_world import ToyWorld, toy_policy

from tasks.route import refresh
from tasks.route import trajectory as loop
from tasks.route.policy import Policy
from tasks.route.splits import SPLITS
from tasks.route.state import Adam, TrajectorySettings, TrajectoryState, deployed_knobs, dump_state
from tasks.route.trajectory import Trajectory
from tasks.route.world import PromptTokens, Score

STEPS = 6
SETTINGS = TrajectorySettings(
    seed=11, longest=4, splits=tuple(SPLITS), adam=Adam(rate=0.02, decay=0.01, largest_norm=1.0), teacher_off_step=4,
    refresh_every=3,
)  # fmt: skip
REAL = replace(SETTINGS, splits=("real",))


@pytest.fixture(scope="module")
def policy() -> Policy:
    return toy_policy(seed=3)


@pytest.fixture(scope="module")
def finished(policy: Policy) -> TrajectoryState:
    """All splits, six steps."""
    return trained(policy).state


def trained(
    policy: Policy, settings: TrajectorySettings = SETTINGS, steps: int = STEPS, world: ToyWorld | None = None
) -> Trajectory:
    trajectory = Trajectory(settings, policy, world or ToyWorld())
    for _ in range(steps):
        trajectory.step()
    return trajectory


def differing(one: TrajectoryState, other: TrajectoryState) -> set[str]:
    """The splits of the first that the second has otherwise."""
    return {n for n, split in one.splits.items() if not torch.equal(split.routed.value, other.splits[n].routed.value)}


class Relabelled(ToyWorld):
    """The same world, with every column of the log but the reward passed on to another row."""

    def score(self, prompts: Sequence[PromptTokens], completions: Sequence[tuple[int, ...]]) -> list[Score]:
        found = super().score(prompts, completions)
        order = np.random.default_rng(5).permutation(len(found))
        return [
            replace(found[other], graded=replace(found[other].graded, reward=score.graded.reward))
            for score, other in zip(found, order, strict=True)
        ]


def test_labels_decide_nothing_but_the_ceiling(policy: Policy, finished: TrajectoryState) -> None:
    other = trained(policy, world=Relabelled()).state
    assert torch.equal(other.whole.value, finished.whole.value)
    assert differing(finished, other) == {"ceiling"}


def test_teacher_rows_end_at_their_step_are_of_a_alone_and_go_through_the_gate(finished: TrajectoryState) -> None:
    taught = [[row for row in record["log"] if row["teacher"]] for record in finished.rows]
    assert [len(rows) for rows in taught] == [6, 6, 6, 6, 0, 0]
    assert {row["mode"] for rows in taught for row in rows} == {"A"}
    gated = [row for rows in taught for row in rows if "f" in row]
    assert any(row["f"]["real"] < 1 for row in gated)  # never forced: their f is the gate's own
    honest = [row["f"]["real"] for row in gated if row["oracle"] and row["advantage"] > 0]
    assert honest and max(honest) < 0.5


def test_a_twentieth_of_every_gradient_moves_the_quarantine_a_twentieth_as_far(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an Adam each it would move as far, and the sum twice as far."""

    def twentieth(*given: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros_like(given[3].live.float()), 0.05 * given[3].live

    monkeypatch.setattr(loop, "route", twentieth)
    state = trained(policy, REAL).state
    assert state.whole.value.abs().max() > 0.05
    assert torch.allclose(state.splits["real"].routed.value, 0.05 * state.whole.value, rtol=1e-3, atol=1e-7)


def test_a_split_among_others_is_the_split_alone(policy: Policy, finished: TrajectoryState) -> None:
    alone = trained(policy, replace(SETTINGS, splits=("random_3", "pooled"))).state
    assert set(alone.splits) == {"real", "random_3", "pooled"}
    assert torch.equal(alone.whole.value, finished.whole.value)
    assert differing(alone, finished) == set()


def test_every_split_routes_in_its_own_way_and_is_deployed_without_its_quarantine(finished: TrajectoryState) -> None:
    routed = {name: split.routed.value for name, split in finished.splits.items() if split.routed.value.any()}
    # A band that a random direction leaves thin or inverted routes nothing, and says so.
    closed = set(finished.splits) - set(routed)
    assert closed <= {"band_random", "permuted", "placebo"}
    assert all("routes nothing" in " ".join(finished.rows[0]["events"]) for _ in closed)
    names, whole = sorted(routed), finished.whole.value
    assert not any(torch.equal(routed[one], routed[other]) for one in names for other in names if one < other)
    assert torch.allclose(deployed_knobs(finished, "real") + routed["real"], whole, atol=1e-7)
    assert torch.equal(deployed_knobs(finished, "real", quarantine=True), whole)
    assert torch.equal(deployed_knobs(finished, "none"), whole) and not deployed_knobs(finished, "untrained").any()
    assert torch.equal(deployed_knobs(finished, "scaled_0.25"), whole * 0.25)


def test_erase_takes_the_hack_ward_part_off_and_learns_the_rest(policy: Policy) -> None:
    settings = replace(SETTINGS, kind="erase", splits=(), adam=Adam(rate=0.02), refresh_every=100)
    erased = trained(policy, settings).state
    plain = trained(policy, replace(settings, kind="shared")).state
    extraction = erased.splits["erase"].extraction
    assert extraction is not None
    along = [policy.adapter.layout.sums(each.whole.value * extraction.direction[0]) for each in (erased, plain)]
    # Knobs move against the gradient, so hack-ward is negative here; no step of `erase` may go there.
    assert (along[0] > -1e-6).all() and (along[1] < along[0]).all()
    assert erased.whole.value.abs().max() > 0.05


def test_a_refresh_is_taken_with_the_quarantine_off_and_a_collapse_freezes_what_was_before_routing(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair_sides, trajectory = refresh.pair_sides, trained(policy, REAL, steps=1)
    before, used = trajectory.state.splits["real"].extraction, list[torch.Tensor]()
    kept, whole = deployed_knobs(trajectory.state, "real"), trajectory.state.whole.value

    def weakened(policy: Any, pairs: Any, knobs: torch.Tensor, measure: Any) -> Any:
        """The hack's gradient becomes the honest one's, as it does when hacks are suppressed."""
        used.append(knobs)
        sides = pair_sides(policy, pairs, knobs, measure)
        return replace(sides, rej=sides.cho + 1e-4 * sides.rej)

    monkeypatch.setattr(refresh, "pair_sides", weakened)
    refresh.refresh_splits(REAL, policy, ToyWorld(), trajectory.state)
    assert not torch.equal(kept, whole)
    # The second is for the overlap with the direction that has the quarantine on, which decides nothing.
    assert len(used) == 2 and torch.equal(used[0], kept) and torch.equal(used[1], whole)
    for _ in range(2 * REAL.refresh_every):
        trajectory.step()
    split = trajectory.state.splits["real"]
    assert split.frozen and split.extraction is not None and before is not None
    assert torch.equal(split.extraction.direction, before.direction)
    events = [event for row in trajectory.state.rows for event in row["events"]]
    assert sum("collapse" in event for event in events) == 1
    assert trajectory.state.rows[-1]["splits"]["real"]["f_mean"] > 0


def test_a_resumed_trajectory_goes_on_to_the_bit(policy: Policy, finished: TrajectoryState) -> None:
    torch.manual_seed(99)  # the global state decides nothing
    state = trained(policy, steps=2).dump()
    for step in range(2, STEPS):  # resumed before every step
        resumed = Trajectory(SETTINGS, policy, ToyWorld(), state)
        assert resumed.state.step == step
        torch.rand(3)
        resumed.step()
        state = resumed.dump()
    assert state == dump_state(finished)


def test_a_row_without_a_finite_gradient_trains_nothing_and_many_end_the_training(policy: Policy) -> None:
    def spoiled(count: int, value: float, trajectory: Trajectory | None = None) -> Trajectory:
        """The next step, in which the first live rows have gradients and inputs of this value."""
        gradients, trajectory = policy.gradients, trajectory or trained(policy, steps=1)

        def given(*arguments: Any, **named: Any) -> Any:
            found = gradients(*arguments, **named)
            found.gradients[:count] = value
            found.inputs[:count] = value
            return found

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(policy, "gradients", given)
            trajectory.step()
        return trajectory

    for value in (torch.nan, torch.inf):
        state, zeroed = spoiled(1, value).state, spoiled(1, 0.0).state
        assert state.rows[-1]["events"] == ["rows without a finite gradient, which trained nothing: 1"]
        json.dumps(state.rows, allow_nan=False)
        # Exactly as if the gradient of the row were zero, in the whole and in every split.
        assert state.whole.value.isfinite().all() and torch.equal(state.whole.value, zeroed.whole.value)
        assert differing(zeroed, state) == set()
    with pytest.raises(RuntimeError, match=r"4 of \d+ rows are not finite"):
        spoiled(4, torch.nan)
    with pytest.raises(RuntimeError, match=r"4 of the \d+ gradients of pairs are not finite"):
        spoiled(4, torch.nan, Trajectory(SETTINGS, policy, ToyWorld()))
