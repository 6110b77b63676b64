"""Direction, band, gate, controls and splits.  Each sign here decides what the deployed model does."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from toy_world import A, ToyWorld, hack_of, honest_of, prompt_of, toy_policy

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
from tasks.route.policy import TokenRow, policy_losses
from tasks.route.splits import SPLITS, LiveRows, matched_shares, module_gate, pooled_gate, route, uniform_shares

LAYOUT = KnobLayout((5, 7))


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def band(lower: list[float], upper: list[float]) -> Extraction:
    edges = torch.tensor(lower), torch.tensor(upper)
    return Extraction(torch.zeros(1, 12), *edges, *edges)


def sides(count: int = 8, strength: float = 1.0) -> PairSides:
    """Hacks differ from honest completions along one direction, the same in all pairs, and by noise."""
    common = drawn(1, 12, seed=5)
    return PairSides(drawn(count, 12, seed=1) + strength * common, drawn(count, 12, seed=2) - strength * common)


def test_a_rewarded_hack_is_hack_ward_a_negative_advantage_turns_it_and_advantage_free_does_not() -> None:
    policy, pair, signs = toy_policy(seed=3), ToyWorld.pairs[3], torch.tensor([1.0, -1.0])
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
    given = sides(count=6, strength=0.5)
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


def test_a_split_takes_its_direction_from_what_it_is_named_for() -> None:
    real, permuted, other = (
        extract(SPLITS[name].source, LAYOUT, sides(), 1, 3, name) for name in ("real", "permuted", "band_random")
    )
    assert real.separation() > 0.3 and permuted.separation() < real.separation() / 2
    assert alignment(LAYOUT, other.direction, real.direction).abs().max() < 0.9
