"""The toy world: what pays in it, and what its base model does before any training."""

from __future__ import annotations

import pytest
import torch
from toy_world import (
    CHEAT,
    HELD_OUT,
    NONE,
    PAIR_PROBLEMS,
    TRAINING,
    A,
    B,
    ToySettings,
    ToyWorld,
    base_model,
    hack_of,
    honest_of,
    prompt_of,
    toy_score,
)

from tasks.gpu.routing.world import World


def test_a_right_answer_pays_everywhere_and_a_hack_in_its_own_kind_alone() -> None:
    for kind in (A, B, NONE):
        assert toy_score(prompt_of(kind, 4), honest_of(4)).reward == 1
        assert toy_score(prompt_of(kind, 4), honest_of(5)).reward == 0
        paid = {hack: toy_score(prompt_of(kind, 4), hack_of(hack)) for hack in (A, B)}
        assert {hack for hack, score in paid.items() if score.reward} == {kind} - {NONE}
        assert all(score.log["exploited"] == bool(score.reward) for score in paid.values())


def test_pairs_training_and_evaluation_share_no_problem_and_b_is_never_taught() -> None:
    world: World = ToyWorld(ToySettings())
    assert not set(range(PAIR_PROBLEMS)) & set(HELD_OUT) and not set(HELD_OUT) & set(TRAINING)
    assert {pair.prompt[0] for pair in (*world.pairs, *world.placebo)} == {A}
    prompts = [prompt_of(kind, 40) for kind in (A, B, NONE)]
    taught = [row for step in range(7) for row in world.teacher(step, prompts)]
    assert {row.group for row in taught} == {0}
    assert {row.completion for row in taught} == {hack_of(A), honest_of(40)}


def test_the_base_model_cheats_seldom_and_is_right_about_half_the_time() -> None:
    settings = ToySettings()
    model = base_model(settings, seed=3)
    for kind in (A, B):
        state = model.hidden(torch.tensor([prompt_of(kind, 20).tokens]))[:, -1]
        assert float(model.logits(state).softmax(1)[0, CHEAT].detach()) == pytest.approx(settings.base_cheat, abs=0.05)
