"""The loop on the toy world: what decides nothing, whose rows train, and what a step makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from toy_training import SETTINGS, TOY, same_split, trained
from toy_world import ToyWorld

from tasks.route import trajectory as loop
from tasks.route.policy import Policy
from tasks.route.splits import Adam, TrajectoryState, deployed_knobs
from tasks.route.trajectory import Trajectory
from tasks.route.world import PromptTokens, TeacherRow, WorldScore


class Relabelled(ToyWorld):
    """The same world, with every column of the log and every teacher's mark passed on to another row."""

    def score(self, prompts: Sequence[PromptTokens], completions: Sequence[tuple[int, ...]]) -> list[WorldScore]:
        found = super().score(prompts, completions)
        order = np.random.default_rng(5).permutation(len(found))
        return [replace(score, log=found[other].log) for score, other in zip(found, order, strict=True)]

    def teacher(self, step: int, prompts: Sequence[PromptTokens]) -> list[TeacherRow]:
        found = super().teacher(step, prompts)
        return [replace(row, score=replace(row.score, log={"exploited": False, "mode": "B"})) for row in found]


def test_labels_in_the_log_decide_nothing_but_the_ceiling(policy: Policy, finished: TrajectoryState) -> None:
    other = trained(policy, world=Relabelled(TOY)).state
    assert torch.equal(other.whole.value, finished.whole.value)
    differ = {name for name in finished.splits if not same_split(finished.splits[name], other.splits[name])}
    assert differ == {"ceiling"}


def test_which_rows_are_a_teachers_decides_nothing(
    policy: Policy, finished: TrajectoryState, monkeypatch: pytest.MonkeyPatch
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


def test_a_twentieth_of_every_gradient_moves_the_quarantine_a_twentieth_as_far(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def twentieth(*given: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros_like(given[3].live.float()), 0.05 * given[3].live

    monkeypatch.setattr(loop, "route", twentieth)
    state = trained(policy, replace(SETTINGS, splits=("real",))).state
    assert state.whole.value.abs().max() > 0.05
    assert torch.allclose(state.splits["real"].routed.value, 0.05 * state.whole.value, rtol=1e-3, atol=1e-7)


def test_rows_without_quarantine_are_sampled_and_trained_without_it(policy: Policy) -> None:
    settings = replace(SETTINGS, splits=("real",), rollout_ablate_frac=0.5, adam=Adam(rate=0.1))
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


class AllRight(ToyWorld):
    def score(self, prompts: Sequence[PromptTokens], completions: Sequence[tuple[int, ...]]) -> list[WorldScore]:
        return [WorldScore(1.0, {}) for _ in completions]

    def teacher(self, step: int, prompts: Sequence[PromptTokens]) -> list[TeacherRow]:
        return []


def test_groups_without_variance_are_skipped_and_train_nothing(policy: Policy) -> None:
    state = trained(policy, replace(SETTINGS, splits=("real",), beta=0.5), AllRight(TOY), steps=2).state
    assert state.updates == 0 and not state.whole.value.any()
    assert [(row["groups_skipped"], row["live_rows"]) for row in state.rows] == [(8, 0)] * 2
