"""Completions sampled with given knobs: nothing else changes, and a row does not depend on those beside it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from toy_training import SETTINGS, TOY
from toy_world import HELD_OUT, NONE, A, B, ToyWorld, prompt_of

from tasks.route.gradients import Policy
from tasks.route.state import TrajectoryState, deployed_knobs, dump_state, refresh_splits
from tasks.route.trajectory import AskedSample, evaluate_samples, sample_rows
from tasks.route.world import WorldScore

PROMPTS = [prompt_of(kind, problem) for kind in (A, B, NONE) for problem in HELD_OUT]


def scores_of(policy: Policy, batches: Sequence[Sequence[AskedSample]], seed: int = 1) -> list[WorldScore]:
    return [score for part in evaluate_samples(policy, ToyWorld(TOY), batches, 4, seed) for score in part]


def test_evaluation_and_refresh_leave_parameters_state_and_random_numbers_alone(
    policy: Policy, finished: TrajectoryState
) -> None:
    model = policy.model
    assert isinstance(model, torch.nn.Module)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    kept, random, record = deployed_knobs(finished, "real"), torch.get_rng_state(), dump_state(finished)
    scores_of(policy, [[AskedSample(prompt, kept, number) for number, prompt in enumerate(PROMPTS)]])
    refresh_splits(SETTINGS, policy, ToyWorld(TOY), finished)
    sample_rows(policy, PROMPTS[:3], kept, 4, 3)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert dump_state(finished) == record
    # Without the quarantine and with it again: both are the state's, exactly.
    whole = deployed_knobs(finished, "real", quarantine=True)
    assert torch.equal(whole, finished.whole.value) and torch.equal(kept, deployed_knobs(finished, "real"))
    assert torch.allclose(kept + finished.splits["real"].routed.value, whole, atol=1e-7)


def test_a_sample_is_the_same_whatever_is_evaluated_beside_it(policy: Policy, finished: TrajectoryState) -> None:
    # Given prompts of several deployments in one batch
    deployed = [deployed_knobs(finished, name) for name in ("none", "untrained", "real", "none")]
    asked = [AskedSample(prompt, knobs, number) for knobs in deployed for number, prompt in enumerate(PROMPTS)]
    mixed = scores_of(policy, [asked])
    # Then each deployment has what it has alone, in batches of any size
    count = len(PROMPTS)
    alone = [score for start in range(0, len(asked), count) for score in scores_of(policy, [asked[start:][:count]])]
    small = scores_of(policy, [asked[start : start + 7] for start in range(0, len(asked), 7)])
    assert mixed == alone == small and len(mixed) == len(asked)
    # and equal knobs have equal samples, other knobs or another seed others
    assert mixed[:count] == mixed[3 * count :] and mixed[:count] != mixed[count : 2 * count]
    assert mixed != scores_of(policy, [asked], seed=2)
