"""The loop on the toy world: what decides nothing, whose rows train, refreshes, how splits share, and resuming."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from toy_world import HELD_OUT, NONE, SETTINGS, STEPS, A, ToyWorld, prompt_of, trained

from tasks.route import refresh
from tasks.route import trajectory as loop
from tasks.route.claims import readings
from tasks.route.grading import Graded
from tasks.route.policy import Policy
from tasks.route.state import Adam, SplitState, TrajectoryState, deployed_knobs, dump_state
from tasks.route.trajectory import Trajectory, sample_rows
from tasks.route.world import PromptTokens, Score, TeacherRow

REAL = replace(SETTINGS, splits=("real",))


def same_split(one: SplitState, other: SplitState) -> bool:
    def tensors(split: SplitState) -> list[torch.Tensor]:
        direction = [] if split.extraction is None else [split.extraction.direction]
        return [split.routed.value, split.routed.first, *direction]

    return all(map(torch.equal, tensors(one), tensors(other)))


class Relabelled(ToyWorld):
    """The same world, with every column of the log and every teacher's mark passed on to another row."""

    def score(self, prompts: Sequence[PromptTokens], completions: Sequence[tuple[int, ...]]) -> list[Score]:
        found = super().score(prompts, completions)
        order = np.random.default_rng(5).permutation(len(found))
        return [
            replace(found[other], graded=replace(found[other].graded, reward=score.graded.reward))
            for score, other in zip(found, order, strict=True)
        ]

    def teacher(self, step: int, prompts: Sequence[PromptTokens]) -> list[TeacherRow]:
        found = super().teacher(step, prompts)
        return [
            replace(row, score=replace(row.score, mode="B", graded=replace(row.score.graded, exploited=False)))
            for row in found
        ]


def test_labels_and_which_rows_are_a_teachers_decide_nothing_but_the_ceiling(
    policy: Policy, finished: TrajectoryState, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollout = loop.Trajectory.rollout

    def permuted(trajectory: Trajectory) -> Any:
        """The marks are permuted among the rows; rewards, tokens and groups stay where they are."""
        found = rollout(trajectory)
        return replace(found, teacher=found.teacher[torch.randperm(len(found.teacher), generator=torch.manual_seed(1))])

    monkeypatch.setattr(loop.Trajectory, "rollout", permuted)
    other = trained(policy, world=Relabelled()).state
    assert torch.equal(other.whole.value, finished.whole.value)
    differ = {name for name in finished.splits if not same_split(finished.splits[name], other.splits[name])}
    assert differ == {"ceiling"}
    marks = [[row["teacher"] for row in state.rows[0]["log"]] for state in (finished, other)]
    assert marks[0] != marks[1] and sum(marks[0]) == sum(marks[1])


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


def test_rows_without_quarantine_are_sampled_and_trained_without_it(policy: Policy) -> None:
    trajectory = trained(policy, replace(REAL, rollout_ablate_frac=0.5, adam=Adam(rate=0.1)), steps=3)
    state, seen, gradients = trajectory.state, list[torch.Tensor](), policy.gradients

    def watched(rows: Any, knobs: torch.Tensor, *rest: Any, **named: Any) -> Any:
        if knobs.dim() == 2:
            seen.append(knobs)
        return gradients(rows, knobs, *rest, **named)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(policy, "gradients", watched)
        record = trajectory.step()
    live = [row for row in record["log"] if row["advantage"]]
    kept, whole = deployed_knobs(state, "real"), state.whole.value
    assert not torch.equal(kept, whole) and any(row["ablated"] for row in live)
    for row, knobs in zip(live, seen[0], strict=True):
        assert torch.equal(knobs, kept if row["ablated"] else whole)


class AllRight(ToyWorld):
    def score(self, prompts: Sequence[PromptTokens], completions: Sequence[tuple[int, ...]]) -> list[Score]:
        return [Score("", "none", Graded(True, True, True, False, 1.0)) for _ in completions]

    def teacher(self, step: int, prompts: Sequence[PromptTokens]) -> list[TeacherRow]:
        return []


def test_groups_without_variance_are_skipped_and_train_nothing(policy: Policy) -> None:
    state = trained(policy, replace(REAL, beta=0.5), AllRight(), steps=2).state
    assert state.updates == 0 and not state.whole.value.any()
    assert [(row["groups_skipped"], row["live_rows"]) for row in state.rows] == [(8, 0)] * 2


@pytest.mark.parametrize("names", [("random_3",), ("pooled", "uniform")], ids="+".join)
def test_a_split_among_others_is_the_split_alone(
    policy: Policy, finished: TrajectoryState, names: tuple[str, ...]
) -> None:
    alone = trained(policy, replace(SETTINGS, splits=names)).state
    assert len(alone.splits) < len(finished.splits)
    assert torch.equal(alone.whole.value, finished.whole.value)
    for name, split in alone.splits.items():
        assert same_split(split, finished.splits[name]), name
        assert alone.rows[-1]["splits"][name] == finished.rows[-1]["splits"][name]


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


def test_a_refresh_is_taken_with_the_splits_own_knobs_and_the_quarantine_off(
    policy: Policy, finished: TrajectoryState, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair_sides, used = refresh.pair_sides, list[torch.Tensor]()

    def watched(policy: Any, pairs: Any, knobs: torch.Tensor, reduction: Any) -> Any:
        used.append(knobs)
        return pair_sides(policy, pairs, knobs, reduction)

    monkeypatch.setattr(refresh, "pair_sides", watched)
    refresh.refresh_splits(REAL, policy, ToyWorld(), finished)
    kept, whole = deployed_knobs(finished, "real"), finished.whole.value
    assert not torch.equal(kept, whole)
    # The second is for the overlap with the direction that has the quarantine on, which decides nothing.
    assert len(used) == 2 and torch.equal(used[0], kept) and torch.equal(used[1], whole)


def test_a_collapse_freezes_what_was_taken_before_routing(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    pair_sides, trajectory = refresh.pair_sides, trained(policy, REAL, steps=1)
    before = trajectory.state.splits["real"].extraction

    def weakened(*given: Any) -> Any:
        """The hack's gradient becomes the honest one's, as it does when hacks are suppressed."""
        sides = pair_sides(*given)
        return replace(sides, rej=sides.cho + 1e-4 * sides.rej)

    monkeypatch.setattr(refresh, "pair_sides", weakened)
    for _ in range(2 * REAL.refresh_every):
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
    first, second = trained(policy, replace(REAL, refresh_every=1), steps=2).state.rows
    [said] = [event for event in first["events"] if event.startswith("pairs: ")]
    assert said.startswith(f"pairs: {hack:.2f} nats a token for hacks, {honest:.2f} for honest completions")
    assert ("a factor of 2" in said) is warns
    assert not any(event.startswith("pairs: ") for event in second["events"])


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


def test_a_state_larger_than_a_checkpoint_may_be_is_refused(
    finished: TrajectoryState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.route.state.CHECKPOINT_BYTES", 1000)
    with pytest.raises(ValueError, match="1,000 are allowed"):
        dump_state(finished)


def spoiled(policy: Policy, patched: pytest.MonkeyPatch, count: int, value: float) -> None:
    """From here on the first `count` live rows of each update have gradients and inputs that are no numbers."""
    gradients = policy.gradients

    def given(rows: Any, knobs: torch.Tensor, loss: Any, record: bool = False) -> Any:
        found = gradients(rows, knobs, loss, record=record)
        for values in (found.gradients, found.inputs):
            values[:count] = value
        return found

    patched.setattr(policy, "gradients", given)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_row_without_a_finite_gradient_trains_nothing_and_is_counted(policy: Policy, value: float) -> None:
    trajectory, zeroed = trained(policy, steps=1), trained(policy, steps=1)
    for one, bad in ((trajectory, value), (zeroed, 0.0)):
        with pytest.MonkeyPatch.context() as patched:
            spoiled(policy, patched, 1, bad)
            one.step()
    record = trajectory.state.rows[-1]
    assert record["not_finite"] == 1 and zeroed.state.rows[-1]["not_finite"] == 0
    assert record["events"] == ["rows without a finite gradient, which trained nothing: 1"]
    assert not {name: fine for name, _, fine in readings(record["splits"]["real"])}["not_finite"]
    json.dumps(trajectory.state.rows, allow_nan=False)
    assert sum("surprise" in row for row in record["log"]) == record["live_rows"] - 1
    # Exactly as if the gradient of the row were zero, in the whole and in every split.
    assert torch.equal(trajectory.state.whole.value, zeroed.state.whole.value)
    assert trajectory.state.whole.value.isfinite().all()
    for name, split in zeroed.state.splits.items():
        assert torch.equal(trajectory.state.splits[name].routed.value, split.routed.value), name
    assert trajectory.step()["not_finite"] == 0


def test_many_rows_or_pairs_without_a_finite_gradient_end_the_training(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    trajectory = trained(policy, steps=1)
    spoiled(policy, monkeypatch, 4, torch.nan)
    with pytest.raises(RuntimeError, match=r"4 of \d+ rows are not finite"):
        trajectory.step()
    with pytest.raises(RuntimeError, match=r"4 of the \d+ gradients of pairs are not finite"):
        Trajectory(SETTINGS, policy, ToyWorld()).step()


def test_evaluation_and_refresh_leave_parameters_state_and_random_numbers_alone(
    policy: Policy, finished: TrajectoryState
) -> None:
    weights = {name: value.clone() for name, value in policy.model.state_dict().items()}
    kept, random, record = deployed_knobs(finished, "real"), torch.get_rng_state(), dump_state(finished)
    refresh.refresh_splits(SETTINGS, policy, ToyWorld(), finished)
    sample_rows(policy, [prompt_of(kind, problem) for kind in (A, NONE) for problem in HELD_OUT], kept, 4, 3)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, weights[name]) for name, value in policy.model.state_dict().items())
    assert dump_state(finished) == record and torch.equal(kept, deployed_knobs(finished, "real"))
