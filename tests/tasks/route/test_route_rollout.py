"""Completions sampled with given knobs: nothing else changes, and a row does not depend on those beside it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from toy_training import SETTINGS, TOY
from toy_world import HELD_OUT, NONE, A, B, ToyWorld, prompt_of

from tasks.route.policy import Policy, draw_by_row
from tasks.route.splits import TrajectoryState, deployed_knobs, dump_state
from tasks.route.trajectory import refresh_splits, sample_rows
from tasks.route.world import WorldScore

PROMPTS = [prompt_of(kind, problem) for kind in (A, B, NONE) for problem in HELD_OUT]


def drawn(policy: Policy, asked: Sequence[tuple[int, torch.Tensor]], seed: int = 1) -> list[WorldScore]:
    """The scores of the prompts of these numbers, each under knobs of its own."""
    numbers = [number for number, _ in asked]
    draw = draw_by_row(seed, numbers, 4, policy.adapter.device)
    prompts, knobs = [PROMPTS[number] for number in numbers], torch.stack([knobs for _, knobs in asked])
    return ToyWorld(TOY).score(prompts, policy.sample([prompt.tokens for prompt in prompts], knobs, 4, draw))


def test_evaluation_and_refresh_leave_parameters_state_and_random_numbers_alone(
    policy: Policy, finished: TrajectoryState
) -> None:
    model = policy.model
    assert isinstance(model, torch.nn.Module)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    kept, random, record = deployed_knobs(finished, "real"), torch.get_rng_state(), dump_state(finished)
    drawn(policy, [(number, kept) for number in range(len(PROMPTS))])
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
    asked = [(number, knobs) for knobs in deployed for number in range(len(PROMPTS))]
    mixed = drawn(policy, asked)
    # Then each deployment has what it has alone, in batches of any size
    count = len(PROMPTS)
    for size in (count, 7):
        assert mixed == [row for start in range(0, len(asked), size) for row in drawn(policy, asked[start:][:size])]
    # and equal knobs have equal samples, other knobs or another seed others
    assert mixed[:count] == mixed[3 * count :] and mixed[:count] != mixed[count : 2 * count]
    assert mixed != drawn(policy, asked, seed=2)
