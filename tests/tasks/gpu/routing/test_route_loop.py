"""The loop on the toy world: what decides nothing, what resumes to the bit, what ends when."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from toy_world import NONE, A, B, ToySettings, ToyWorld, prompt_of, toy_policy

from tasks.gpu.routing import loop, refresh
from tasks.gpu.routing.checkpoint import RouteCheckpointError, dump_state, load_state
from tasks.gpu.routing.diagnostics import DIAGNOSTICS, correlation, live_figures, readings
from tasks.gpu.routing.loop import Trajectory
from tasks.gpu.routing.rollout import evaluate_deployments, evaluate_knobs, fold_gap, sample_rows
from tasks.gpu.routing.row_gradients import NotFiniteError, PolicyRows
from tasks.gpu.routing.splits import SPLITS, SplitState
from tasks.gpu.routing.trajectory_state import TrajectorySettings, TrajectoryState, deployed_knobs
from tasks.gpu.routing.update import Adam
from tasks.gpu.routing.world import PromptTokens, TeacherRow, World, WorldScore

TOY = ToySettings()
SETTINGS = TrajectorySettings(
    seed=11, longest=4, splits=tuple(SPLITS), adam=Adam(rate=0.02, decay=0.01, largest_norm=1.0), teacher_off_step=4,
    refresh_every=3,
)  # fmt: skip
STEPS = 6


@pytest.fixture(scope="module")
def policy() -> PolicyRows:
    return toy_policy(TOY, seed=3)


def trained(
    policy: PolicyRows, settings: TrajectorySettings = SETTINGS, world: World | None = None, steps: int = STEPS
) -> Trajectory:
    trajectory = Trajectory(settings, policy, world or ToyWorld(TOY))
    for _ in range(steps):
        trajectory.step()
    return trajectory


@pytest.fixture(scope="module")
def finished(policy: PolicyRows) -> TrajectoryState:
    """All splits, six steps."""
    return trained(policy).state


def same_split(one: SplitState, other: SplitState) -> bool:
    directions = [(None if state.extraction is None else state.extraction.direction) for state in (one, other)]
    same = (directions[0] is None) == (directions[1] is None)
    if directions[0] is not None and directions[1] is not None:
        same = torch.equal(directions[0], directions[1])
    return (
        same and torch.equal(one.routed.value, other.routed.value) and torch.equal(one.routed.first, other.routed.first)
    )


class Relabelled(ToyWorld):
    """The same world, with every column of the log and every teacher's mark passed on to another row."""

    def score(self, prompts: Sequence[PromptTokens], completions: Sequence[tuple[int, ...]]) -> list[WorldScore]:
        found = super().score(prompts, completions)
        order = np.random.default_rng(5).permutation(len(found))
        return [replace(score, log=found[other].log) for score, other in zip(found, order, strict=True)]

    def teacher(self, step: int, prompts: Sequence[PromptTokens]) -> list[TeacherRow]:
        found = super().teacher(step, prompts)
        return [replace(row, score=replace(row.score, log={"exploited": False, "mode": "B"})) for row in found]


def test_labels_in_the_log_decide_nothing_but_the_ceiling(policy: PolicyRows, finished: TrajectoryState) -> None:
    other = trained(policy, world=Relabelled(TOY)).state
    assert torch.equal(other.whole.value, finished.whole.value)
    differ = {name for name in finished.splits if not same_split(finished.splits[name], other.splits[name])}
    assert differ == {"ceiling"}


def test_which_rows_are_a_teachers_decides_nothing(
    policy: PolicyRows, finished: TrajectoryState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marks are permuted among the rows; rewards, tokens and groups stay where they are."""
    rollout = loop.Trajectory._rollout

    def permuted(trajectory: Trajectory) -> Any:
        found = rollout(trajectory)
        return replace(found, teacher=found.teacher[torch.randperm(len(found.teacher), generator=torch.manual_seed(1))])

    monkeypatch.setattr(loop.Trajectory, "_rollout", permuted)
    other = trained(policy).state
    assert all(same_split(finished.splits[name], other.splits[name]) for name in finished.splits)
    assert [row["teacher_rows"] for row in other.rows] == [row["teacher_rows"] for row in finished.rows]
    assert other.rows[0]["log"] != finished.rows[0]["log"]


@pytest.mark.parametrize("names", [("real",), ("random_3",), ("pooled", "uniform")], ids="+".join)
def test_a_split_among_others_is_the_split_alone(
    policy: PolicyRows, finished: TrajectoryState, names: tuple[str, ...]
) -> None:
    alone = trained(policy, replace(SETTINGS, splits=names)).state
    assert len(alone.splits) < len(finished.splits)
    assert torch.equal(alone.whole.value, finished.whole.value)
    for name, split in alone.splits.items():
        assert same_split(split, finished.splits[name]), name
        assert alone.rows[-1]["splits"][name] == finished.rows[-1]["splits"][name]


def test_every_split_routes_and_each_its_own_way(finished: TrajectoryState) -> None:
    routed = {name: split.routed.value for name, split in finished.splits.items() if split.routed.value.any()}
    # A band that a random direction leaves thin or inverted routes nothing, and says so.
    closed = set(finished.splits) - set(routed)
    assert closed <= {"band_random", "permuted", "placebo"}
    assert all("routes nothing" in " ".join(finished.rows[0]["events"]) for _ in closed)
    names = sorted(routed)
    assert not any(torch.equal(routed[one], routed[other]) for one in names for other in names if one < other)


def test_a_control_has_reals_volume_in_every_row_of_the_record(finished: TrajectoryState) -> None:
    for row in finished.rows:
        splits = row["splits"]
        for name in ("random_0", "uniform"):
            for figure in ("f_mean",) if not row["teacher_rows"] else ():
                assert splits[name][figure] == pytest.approx(splits["real"][figure], abs=1e-6)


def test_a_twentieth_of_every_gradient_moves_the_quarantine_a_twentieth_as_far(
    policy: PolicyRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    def twentieth(*given: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros_like(given[3].live.float()), 0.05 * given[3].live

    monkeypatch.setattr(loop, "route", twentieth)
    state = trained(policy, replace(SETTINGS, splits=("real",))).state
    assert state.whole.value.abs().max() > 0.05
    assert torch.allclose(state.splits["real"].routed.value, 0.05 * state.whole.value, rtol=1e-3, atol=1e-7)


def test_a_resumed_trajectory_goes_on_to_the_bit(policy: PolicyRows, finished: TrajectoryState) -> None:
    torch.manual_seed(99)  # the global state decides nothing
    state = trained(policy, steps=2).dump()
    for step in range(2, STEPS):  # resumed before every step
        resumed = Trajectory(SETTINGS, policy, ToyWorld(TOY), state)
        assert resumed.state.step == step
        torch.rand(3)
        resumed.step()
        state = resumed.dump()
    assert state == dump_state(SETTINGS, finished)


def test_a_checkpoint_of_other_settings_or_none_at_all_is_refused(policy: PolicyRows) -> None:
    data = Trajectory(SETTINGS, policy, ToyWorld(TOY)).dump()
    for broken in (data[: len(data) // 2], b"", b"pickle", data[8:]):
        with pytest.raises(RouteCheckpointError, match="no checkpoint"):
            load_state(SETTINGS, broken, torch.device("cpu"))
    with pytest.raises(RouteCheckpointError, match="other settings"):
        load_state(replace(SETTINGS, seed=12), data, torch.device("cpu"))


def test_a_state_larger_than_a_checkpoint_may_be_is_refused(
    finished: TrajectoryState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.gpu.routing.checkpoint.LARGEST_CHECKPOINT", 1000)
    with pytest.raises(RouteCheckpointError, match="1,000 are allowed"):
        dump_state(SETTINGS, finished)


def test_evaluation_and_refresh_leave_parameters_state_and_random_numbers_alone(
    policy: PolicyRows, finished: TrajectoryState
) -> None:
    model = policy.model
    assert isinstance(model, torch.nn.Module)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    kept, random, record = deployed_knobs(finished, "real"), torch.get_rng_state(), dump_state(SETTINGS, finished)
    world = ToyWorld(TOY)
    prompts = [prompt_of(kind, 20) for kind in (A, B, NONE)]
    scores = evaluate_knobs(policy, world, prompts, kept, 4, seed=1, fold=True)
    assert scores == evaluate_knobs(policy, world, prompts, kept, 4, seed=1, fold=True)
    refresh.refresh_splits(SETTINGS, policy, world, finished)
    assert fold_gap(policy, sample_rows(policy, prompts, kept, 4, True, 3), kept) < 1e-4
    # and prompts of several deployments go together, each row with the knobs of its own
    asked = [(prompt, knobs) for knobs in (kept, policy.adapter.zeros()) for prompt in prompts]
    mixed = [score for part in evaluate_deployments(policy, world, asked, 4, seed=1, at_once=7) for score in part]
    assert len(mixed) == 2 * len(prompts)
    alone = sample_rows(policy, prompts, kept, 4, False, 5)
    each = sample_rows(policy, prompts, kept.expand(len(prompts), -1), 4, False, 5)
    assert alone == each
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert dump_state(SETTINGS, finished) == record
    # Without the quarantine and with it again: both are the state's, exactly.
    whole = deployed_knobs(finished, "real", quarantine=True)
    assert torch.equal(whole, finished.whole.value) and torch.equal(kept, deployed_knobs(finished, "real"))
    assert torch.allclose(kept + finished.splits["real"].routed.value, whole, atol=1e-7)


def test_a_refresh_is_taken_with_the_splits_own_knobs_and_the_quarantine_off(
    policy: PolicyRows, finished: TrajectoryState, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair_gradients, used = refresh.pair_gradients, list[torch.Tensor]()

    def watched(policy: Any, pairs: Any, knobs: torch.Tensor, reduction: Any) -> Any:
        used.append(knobs)
        return pair_gradients(policy, pairs, knobs, reduction)

    monkeypatch.setattr(refresh, "pair_gradients", watched)
    refresh.refresh_splits(replace(SETTINGS, splits=("real",)), policy, ToyWorld(TOY), finished)
    kept, whole = deployed_knobs(finished, "real"), finished.whole.value
    assert not torch.equal(kept, whole)
    # The second is for the overlap with the direction that has the quarantine on, which decides nothing.
    assert len(used) == 2 and torch.equal(used[0], kept) and torch.equal(used[1], whole)


def test_what_is_deployed_under_each_name(finished: TrajectoryState) -> None:
    whole = finished.whole.value
    assert torch.equal(deployed_knobs(finished, "none"), whole)
    assert not deployed_knobs(finished, "untrained").any()
    assert torch.equal(deployed_knobs(finished, "scaled_0.25"), whole * 0.25)
    with pytest.raises(KeyError):
        deployed_knobs(finished, "unreal")


def test_teacher_rows_end_at_their_step_are_of_a_alone_and_go_through_the_gate(finished: TrajectoryState) -> None:
    taught = [[row for row in record["log"] if row["teacher"]] for record in finished.rows]
    assert [len(rows) for rows in taught] == [6, 6, 6, 6, 0, 0]
    assert {row["mode"] for rows in taught for row in rows} == {"A"}
    gated = [row for rows in taught for row in rows if "f" in row]
    shares = [row["f"]["real"] for row in gated]
    assert shares and any(share < 1 for share in shares)  # never forced: their f is the gate's own
    honest = [
        row["f"]["real"] for rows in taught for row in rows if "f" in row and row["oracle"] and row["advantage"] > 0
    ]
    assert honest and max(honest) < 0.5


def test_a_collapse_freezes_what_was_taken_before_routing(policy: PolicyRows, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(SETTINGS, splits=("real",))
    before = trained(policy, settings, steps=1).state.splits["real"].extraction
    pair_gradients = refresh.pair_gradients

    def weakened(*given: Any) -> Any:
        """The hack's gradient becomes the honest one's, as it does when hacks are suppressed."""
        sides = pair_gradients(*given)
        return replace(sides, rej=sides.cho + 1e-4 * sides.rej + 0.0 * sides.cho)

    trajectory = Trajectory(settings, policy, ToyWorld(TOY))
    for step in range(2 * settings.refresh_every + 1):
        if step == settings.refresh_every:
            monkeypatch.setattr(refresh, "pair_gradients", weakened)
        trajectory.step()
    split = trajectory.state.splits["real"]
    assert split.frozen and split.extraction is not None and before is not None
    assert torch.equal(split.extraction.direction, before.direction)
    events = [event for row in trajectory.state.rows for event in row["events"]]
    assert sum("collapse" in event for event in events) == 1
    assert trajectory.state.rows[-1]["splits"]["real"]["f_mean"] > 0


def test_erase_takes_the_hack_ward_part_off_and_learns_the_rest(policy: PolicyRows) -> None:
    settings = replace(SETTINGS, kind="erase", splits=(), adam=Adam(rate=0.02), refresh_every=100)
    erased = trained(policy, settings).state
    plain = trained(policy, replace(settings, kind="shared")).state
    extraction = erased.splits["erase"].extraction
    assert extraction is not None
    layout = policy.adapter.layout
    along = {
        name: layout.sums(deployed_knobs(state, name) * extraction.direction[0])
        for name, state in (("erase", erased), ("none", plain))
    }
    # Knobs move against the gradient, so hack-ward is negative here; no step of `erase` may go there.
    assert (along["erase"] > -1e-6).all() and (along["none"] < along["erase"]).all()
    assert erased.whole.value.abs().max() > 0.05


def test_rows_without_quarantine_are_sampled_and_trained_without_it(policy: PolicyRows) -> None:
    settings = replace(SETTINGS, splits=("real",), rollout_ablate_frac=0.5, adam=Adam(rate=0.1), updates_per_step=2)
    trajectory = trained(policy, settings, steps=3)
    seen: list[torch.Tensor] = []
    gradients = policy.gradients

    def watched(rows: Any, knobs: torch.Tensor, *rest: Any, **named: Any) -> Any:
        if knobs.dim() == 2:
            seen.append(knobs)
        return gradients(rows, knobs, *rest, **named)

    state = trajectory.state
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(policy, "gradients", watched)
        record = trajectory.step()
    live = [row for row in record["log"] if row["advantage"]]
    kept, whole = deployed_knobs(state, "real"), state.whole.value
    assert not torch.equal(kept, whole) and any(row["ablated"] for row in live)
    for row, knobs in zip(live, seen[0], strict=True):
        assert torch.equal(knobs, kept if row["ablated"] else whole)
    with pytest.raises(ValueError, match="exactly one split"):
        replace(settings, splits=("real", "pooled"))
    with pytest.raises(ValueError, match="no splits"):
        replace(settings, kind="erase", rollout_ablate_frac=0)


def test_with_several_updates_a_step_ratios_are_to_the_first(policy: PolicyRows) -> None:
    one = trained(policy, replace(SETTINGS, splits=()), steps=2).state
    two = trained(policy, replace(SETTINGS, splits=(), updates_per_step=2), steps=2).state
    held = trained(policy, replace(SETTINGS, splits=(), beta=1.0), steps=2).state
    assert (one.updates, two.updates) == (2, 4)
    assert float(held.whole.value.norm()) < float(one.whole.value.norm()) < float(two.whole.value.norm())


class AllRight(ToyWorld):
    def score(self, prompts: Sequence[PromptTokens], completions: Sequence[tuple[int, ...]]) -> list[WorldScore]:
        return [WorldScore(1.0) for _ in completions]

    def teacher(self, step: int, prompts: Sequence[PromptTokens]) -> list[TeacherRow]:
        return []


def test_groups_without_variance_are_skipped_and_train_nothing(policy: PolicyRows) -> None:
    state = trained(policy, replace(SETTINGS, splits=("real",), beta=0.5), AllRight(TOY), steps=2).state
    assert state.updates == 0 and not state.whole.value.any()
    assert [(row["groups_skipped"], row["live_rows"]) for row in state.rows] == [(8, 0)] * 2


def spoiled(policy: PolicyRows, patched: pytest.MonkeyPatch, count: int, value: float) -> None:
    """From here on the first `count` live rows of each update have gradients and inputs that are no numbers."""
    gradients = policy.gradients

    def given(rows: Any, knobs: torch.Tensor, loss: Any, record: bool = False) -> Any:
        found = gradients(rows, knobs, loss, record=record)
        for values in (found.gradients, found.inputs):
            if values is not None:
                values[:count] = value
        return found

    patched.setattr(policy, "gradients", given)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_row_without_a_finite_gradient_trains_nothing_and_is_counted(policy: PolicyRows, value: float) -> None:
    settings = replace(SETTINGS, updates_per_step=2)
    trajectory, zeroed = trained(policy, settings, steps=1), trained(policy, settings, steps=1)
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
    trajectory.step()
    assert trajectory.state.rows[-1]["not_finite"] == 0


def test_many_rows_or_pairs_without_a_finite_gradient_end_the_training(
    policy: PolicyRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    trajectory = trained(policy, steps=1)
    spoiled(policy, monkeypatch, 4, torch.nan)
    with pytest.raises(
        NotFiniteError, match=r"step 1: the gradients of 4 of \d+ rows are not finite; at most 5% may be"
    ):
        trajectory.step()
    with pytest.raises(NotFiniteError, match=r"4 of the \d+ gradients of pairs are not finite"):
        Trajectory(SETTINGS, policy, ToyWorld(TOY)).step()


def test_the_record_is_json_and_is_read_with_what_each_figure_should_be(finished: TrajectoryState) -> None:
    json.dumps(finished.rows, allow_nan=False)
    record = finished.rows[0]["splits"]["real"]
    assert {name for name, _, _ in readings(record)} >= {
        "hkgap",
        "separation",
        "calibration",
        "shares",
        "resid",
        "null",
    }
    assert {name: fine for name, _, fine in readings(record)}["separation"]
    with_previous = finished.rows[3]["splits"]["real"]
    assert "overlap" in {name for name, _, _ in readings(with_previous)}


GOOD: Mapping[str, Mapping[str, float]] = {
    "hkgap": {"hkgap": 0.5, "first_hkgap": 0.6},
    "separation": {"separation": 0.4, "separation_permuted": 0.1},
    "overlap": {"overlap_previous": 0.9},
    "overlap_quarantine": {"overlap_quarantine": 0.9},
    "calibration": {"x_p10": -0.2, "x_p90": 0.5, "lower": -0.3, "upper": 0.7},
    "shares": {"f_mean": 0.3, "f_at_0": 0.2, "f_at_1": 0.1},
    "resid": {"resid": -0.4, "whole_cosine": 0.2, "lower": -0.3},
    "length": {"x_length": 0.1},
    "surprise": {"x_surprise": -0.1},
    "null": {"x_p90": 0.5, "null_p90": 0.1},
    "not_finite": {"not_finite": 0},
}
# The first look on a real model: live rows between -0.15 and 0.06 in a band from -0.31 to 0.70.
BAD: Mapping[str, Mapping[str, float]] = {
    "hkgap": {"hkgap": 0.14},
    "separation": {"separation": 0.05},
    "overlap": {"overlap_previous": 0.19},
    "overlap_quarantine": {"overlap_quarantine": 0.1},
    "calibration": {"x_p10": -0.15, "x_p90": 0.06, "lower": -0.31, "upper": 0.70},
    "shares": {"f_at_1": 0.0},
    "resid": {"resid": 0.1},
    "length": {"x_length": -0.6},
    "surprise": {"x_surprise": 0.6},
    "null": {"null_p90": 0.6},
    "not_finite": {"not_finite": 1},
}


@pytest.mark.parametrize("name", DIAGNOSTICS)
def test_each_diagnostic_tells_a_good_figure_from_a_bad_one(name: str) -> None:
    ((_, good, fine),) = readings(GOOD[name])
    ((_, bad, wrong),) = readings({**GOOD[name], **BAD[name]})
    assert fine and not wrong
    assert DIAGNOSTICS[name].deviation in bad and DIAGNOSTICS[name].deviation not in good


def test_live_figures_count_students_and_teachers_apart() -> None:
    x = torch.tensor([[0.0], [0.2], [0.4], [0.6]])
    shares = torch.tensor([[0.0], [0.5], [1.0], [1.0]])
    live = torch.tensor([[True], [True], [True], [True]])
    teacher = torch.tensor([False, False, False, True])
    lengths = torch.tensor([1.0, 2.0, 3.0, 4.0])
    found = live_figures(x, shares, live, teacher, lengths, torch.ones(4))
    assert found["x_p50"] == pytest.approx(0.3) and found["x_p90"] == pytest.approx(0.54)
    assert (found["f_mean"], found["teacher_f_mean"]) == (0.5, 1.0)
    assert found["f_at_0"] == found["f_at_1"] == pytest.approx(1 / 3)
    assert found["x_length"] == pytest.approx(1) and found["x_surprise"] is None
    assert live_figures(x, shares, ~live, teacher, lengths, lengths) == {}
    assert correlation(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 1.0])) == pytest.approx(-1)
