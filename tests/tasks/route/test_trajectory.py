"""The gate, whose signs decide what the deployed model does, and the loop on the toy world: what trains and routes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from toy_world import A, ToyWorld, hack_of, honest_of, prompt_of, toy_policy

from tasks.route import refresh
from tasks.route import trajectory as loop
from tasks.route.adapter import KnobLayout
from tasks.route.directions import (
    Extraction,
    PairSides,
    alignment,
    extract,
    mean_direction,
    pair_sides,
    random_direction,
)
from tasks.route.policy import Policy, TokenRow, policy_losses
from tasks.route.splits import SPLITS, LiveRows, matched_shares, module_gate, pooled_gate, route, uniform_shares
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


def test_a_row_without_a_finite_gradient_trains_nothing_and_many_end_the_training(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    gradients = policy.gradients

    def spoiled(count: int, value: float) -> TrajectoryState:
        """After a second step, in which the first live rows have gradients and inputs of this value."""

        def given(*arguments: Any, **named: Any) -> Any:
            found = gradients(*arguments, **named)
            found.gradients[:count] = value
            found.inputs[:count] = value
            return found

        monkeypatch.setattr(policy, "gradients", gradients)
        trajectory = trained(policy, steps=1)
        monkeypatch.setattr(policy, "gradients", given)
        trajectory.step()
        return trajectory.state

    zeroed = spoiled(1, 0.0)
    for value in (torch.nan, torch.inf):
        state = spoiled(1, value)
        assert state.rows[-1]["events"] == ["rows without a finite gradient, which trained nothing: 1"]
        json.dumps(state.rows, allow_nan=False)
        # Exactly as if the gradient of the row were zero, in the whole and in every split.
        assert torch.equal(state.whole.value, zeroed.whole.value) and differing(zeroed, state) == set()
    with pytest.raises(RuntimeError, match=r"4 of \d+ rows are not finite"):
        spoiled(4, torch.nan)


LAYOUT = KnobLayout((5, 7))


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def band(lower: list[float], upper: list[float]) -> Extraction:
    edges = torch.tensor(lower), torch.tensor(upper)
    return Extraction(torch.zeros(1, 12), *edges, *edges)


def test_a_rewarded_hack_is_hack_ward_a_negative_advantage_turns_it_and_advantage_free_does_not(policy: Policy) -> None:
    pair, signs = ToyWorld.pairs[3], torch.tensor([1.0, -1.0])
    layout, zeros = policy.adapter.layout, policy.adapter.zeros()
    given = pair_sides(policy, [pair], zeros, "mean")
    direction = mean_direction(layout, given.rej, given.cho)

    def gradients(advantages: torch.Tensor) -> torch.Tensor:
        """The loss gradients of the rows (rej, cho) with these advantages, [2, R]."""

        def loss(new: torch.Tensor, mask: torch.Tensor, part: slice) -> torch.Tensor:
            return policy_losses(new, mask, advantages[part], 3.0, None, 0.0)

        rows = [TokenRow(prompt_of(A, 3).tokens, completion) for completion in (hack_of(A), honest_of(3))]
        return policy.gradients(rows, zeros, loss).gradients

    rows = gradients(signs)
    # Both have three tokens and the denominator is three: the group's gradient is g_rej - g_cho itself.
    assert torch.allclose(rows.sum(0), (given.rej - given.cho)[0], atol=1e-6)
    found = replace(band([-0.5, -0.5], [0.5, 0.5]), direction=direction)
    live = LiveRows(rows, layout.norms(rows), signs, rows[:, :0], torch.zeros(2))
    x, free = (route(SPLITS[name], found, (layout, layout), live, 0, {})[0] for name in ("real", "advantage_free"))
    assert (x[0] > 0.3).all()  # the hack that is rewarded
    assert (x[1] > 0.3).all()  # the honest row that is pushed down: hack-ward as well
    assert torch.allclose(alignment(layout, gradients(-signs), direction), -x, atol=1e-6)
    assert torch.equal(free[0], x[0]) and torch.equal(free[1], -x[1])


def test_the_band_is_the_mean_score_of_both_sides_and_leaves_one_pair_out() -> None:
    # Hacks differ from honest completions along one direction, the same in all pairs, and by noise
    common = 0.5 * drawn(1, 12, seed=5)
    given = PairSides(drawn(6, 12, seed=1) + common, drawn(6, 12, seed=2) - common)
    found = extract("pairs", LAYOUT, given, 1, 0, "real")
    assert torch.allclose(found.upper, alignment(LAYOUT, given.rej, found.direction).mean(0))
    held = []
    for pair in range(6):
        others = [other for other in range(6) if other != pair]
        direction = mean_direction(LAYOUT, given.rej[others], given.cho[others])
        held.append(alignment(LAYOUT, given.rej[pair : pair + 1], direction))
    assert torch.allclose(found.held_upper, torch.cat(held).mean(0), atol=1e-6)
    assert found.hkgap() > found.separation()  # the first is fitted to the pairs that it is measured on


@pytest.mark.parametrize("edges", [(0.1, 0.119), (0.3, -0.3), (0.0, 0.0)], ids=["thin", "inverted", "zero"])
def test_a_band_that_is_thin_inverted_or_zero_routes_nothing(edges: tuple[float, float]) -> None:
    closed = band([edges[0]] * 2, [edges[1]] * 2)
    x = torch.linspace(-1, 1, 14).reshape(7, 2)
    assert not closed.open().any()
    for gate in (module_gate, pooled_gate):
        assert torch.equal(gate(x, torch.ones(7, 2), closed), torch.zeros(7, 2))
    found = module_gate(x, torch.ones(7, 2), band([edges[0], -0.2], [edges[1], 0.4]))
    assert not found[:, 0].any() and found[:, 1].any()


def test_matched_controls_have_the_same_shares_in_each_module_in_another_order_and_a_zero_gradient_none() -> None:
    gradients = drawn(9, 12)
    gradients[4] = 0
    gradients[7, :5] = 0
    live, cpu = LAYOUT.norms(gradients) > 0, torch.device("cpu")
    x = alignment(LAYOUT, gradients, random_direction(LAYOUT, 1, "one", cpu))
    real = module_gate(x, live, band([-1.0] * 2, [-0.5] * 2))  # x = 0 would be routed whole
    assert x.isfinite().all() and not real[~live].any()
    real = module_gate(x, live, band([-0.3] * 2, [0.2] * 2))
    x = alignment(LAYOUT, gradients, random_direction(LAYOUT, 1, "other", cpu))
    matched = matched_shares(x, real, live)
    assert not torch.equal(matched, real) and not matched[~live].any()
    for module in range(2):
        assert torch.equal(matched[:, module].sort().values, real[:, module].sort().values)
        rows = live[:, module]
        assert (matched[rows, module][x[rows, module].argsort()].diff() >= 0).all()
    uniform = uniform_shares(real, live)
    assert torch.allclose(uniform.sum(0), real.sum(0)) and not uniform[~live].any()
    assert len(set(uniform[live[:, 1], 1].tolist())) == 1
