"""Direction, band, gate, controls and splits.  Each sign here decides what the deployed model does."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from toy_world import A, hack_of, honest_of, prompt_of

from tasks.route.adapter import KnobLayout
from tasks.route.directions import (
    Extraction,
    PairSides,
    TokenPair,
    alignment,
    extract,
    mean_direction,
    pair_sides,
    random_direction,
    top_directions,
)
from tasks.route.policy import Policy, TokenRow, policy_losses
from tasks.route.splits import (
    SPLITS,
    LiveRows,
    chosen_splits,
    matched_shares,
    module_gate,
    pooled_gate,
    route,
    uniform_shares,
)

LAYOUT = KnobLayout((5, 7))


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def band(lower: list[float], upper: list[float]) -> Extraction:
    edges = torch.tensor(lower), torch.tensor(upper)
    return Extraction(torch.zeros(1, 12), *edges, *edges)


def sides(count: int = 8, strength: float = 1.0) -> PairSides:
    """Hacks differ from honest completions along one direction, the same in all pairs, and by noise."""
    common = drawn(1, LAYOUT.total, seed=5)
    return PairSides(drawn(count, 12, seed=1) + strength * common, drawn(count, 12, seed=2) - strength * common)


def live_rows(gradients: torch.Tensor, signs: torch.Tensor, layout: KnobLayout = LAYOUT) -> LiveRows:
    return LiveRows(gradients, layout.norms(gradients), signs, gradients[:, :0], torch.zeros(len(gradients)))


def test_a_rewarded_hack_is_hack_ward_a_negative_advantage_turns_it_and_advantage_free_does_not(policy: Policy) -> None:
    pair = TokenPair(prompt_of(A, 3).tokens, honest_of(3), hack_of(A))
    layout = policy.adapter.layout
    given = pair_sides(policy, [pair], policy.adapter.zeros(), "mean")
    direction = mean_direction(layout, given.rej, given.cho)

    def gradients(advantages: torch.Tensor) -> torch.Tensor:
        """The loss gradients of the rows (rej, cho) with these advantages, [2, R]."""
        rows = [TokenRow(pair.prompt, pair.rej), TokenRow(pair.prompt, pair.cho)]

        def loss(new: torch.Tensor, mask: torch.Tensor, part: slice) -> torch.Tensor:
            return policy_losses(new, mask, advantages[part], 3.0, None, 0.0)

        return policy.gradients(rows, policy.adapter.zeros(), loss).gradients

    signs = torch.tensor([1.0, -1.0])
    rows = gradients(signs)
    # Both have three tokens and the denominator is three: the group's gradient is g_rej - g_cho itself.
    assert torch.allclose(rows.sum(0), (given.rej - given.cho)[0], atol=1e-6)
    assert torch.allclose(alignment(layout, rows.sum(0, keepdim=True), direction), torch.ones(1, 2), atol=1e-5)
    found = replace(band([-0.5, -0.5], [0.5, 0.5]), direction=direction)
    x, free = (
        route(SPLITS[name], found, (layout, layout), live_rows(rows, signs, layout), 0, {})[0]
        for name in ("real", "advantage_free")
    )
    assert (x[0] > 0.3).all()  # the hack that is rewarded
    assert (x[1] > 0.3).all()  # the honest row that is pushed down: hack-ward as well
    assert torch.allclose(alignment(layout, gradients(-signs), direction), -x, atol=1e-6)
    assert torch.equal(free[0], x[0]) and torch.equal(free[1], -x[1])
    assert torch.allclose(free, alignment(layout, torch.cat([given.rej, given.cho]), direction), atol=1e-5)


def test_several_directions_are_orthonormal_turned_hack_ward_and_used_without_a_sign() -> None:
    given = sides()
    several = top_directions(LAYOUT, given.rej, given.cho, 3)
    for differences, vectors in zip(LAYOUT.parts(given.rej - given.cho), LAYOUT.parts(several), strict=True):
        assert torch.allclose(vectors @ vectors.T, torch.eye(3), atol=1e-5)
        assert ((differences @ vectors.T) > 0).float().mean(0).min() >= 0.5
    assert (alignment(LAYOUT, mean_direction(LAYOUT, given.rej, given.cho), several[:1]) > 0.9).all()
    assert torch.equal(alignment(LAYOUT, -several.sum(0, keepdim=True), several), torch.zeros(1, 2))
    assert torch.allclose(alignment(LAYOUT, several.sum(0, keepdim=True), several), torch.ones(1, 2), atol=1e-5)
    assert torch.equal(extract("pairs", LAYOUT, given, 3, 0, "real").direction, several)


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
    noise = extract("pairs", LAYOUT, PairSides(drawn(6, 12, seed=8), drawn(6, 12, seed=9)), 1, 0, "real")
    assert noise.hkgap() > 0.2 and noise.separation() < noise.hkgap() / 2


@pytest.mark.parametrize("edges", [(0.1, 0.119), (0.3, -0.3), (0.0, 0.0)], ids=["thin", "inverted", "zero"])
def test_a_band_that_is_thin_inverted_or_zero_routes_nothing(edges: tuple[float, float]) -> None:
    closed = band([edges[0]] * 2, [edges[1]] * 2)
    x = torch.linspace(-1, 1, 14).reshape(7, 2)
    assert not closed.open().any()
    for gate in (module_gate, pooled_gate):
        assert torch.equal(gate(x, torch.ones(7, 2), closed), torch.zeros(7, 2))
    found = module_gate(x, torch.ones(7, 2), band([edges[0], -0.2], [edges[1], 0.4]))
    assert not found[:, 0].any() and found[:, 1].any()


def test_a_zero_gradient_routes_nothing_and_nothing_becomes_nan() -> None:
    gradients = drawn(4, 12)
    gradients[1] = 0
    gradients[2, :5] = 0
    x = alignment(LAYOUT, gradients, mean_direction(LAYOUT, drawn(3, 12), torch.zeros(3, 12)))
    wide = band([-1.0, -1.0], [-0.5, -0.5])  # where x = 0 would be routed whole
    found = module_gate(x, LAYOUT.norms(gradients) > 0, wide)
    assert x.isfinite().all() and not found[1].any() and not found[2, 0] and found[3].any()
    nothing = mean_direction(LAYOUT, torch.zeros(3, 12), torch.zeros(3, 12))
    assert torch.equal(alignment(LAYOUT, gradients, nothing), torch.zeros(4, 2))
    equal = PairSides(torch.zeros(3, 12), torch.zeros(3, 12))
    assert not extract("pairs", LAYOUT, equal, 1, 0, "real").open().any()


def test_the_pooled_gate_gives_a_row_one_share_from_the_open_modules_and_held_out_edges() -> None:
    edges = replace(
        band([-0.5, 0.3], [0.5, 0.1]), held_lower=torch.tensor([-0.2, 9.0]), held_upper=torch.tensor([0.2, 9.0])
    )
    found = pooled_gate(torch.tensor([[0.1, 5.0], [-0.3, 5.0]]), torch.ones(2, 2), edges)
    assert found.tolist() == [pytest.approx([0.75, 0.75]), [0, 0]]


def test_matched_controls_have_the_same_shares_in_each_module_in_another_order() -> None:
    gradients = drawn(9, 12)
    gradients[4] = 0
    gradients[7, :5] = 0
    live, cpu = LAYOUT.norms(gradients) > 0, torch.device("cpu")
    x = alignment(LAYOUT, gradients, random_direction(LAYOUT, 1, "one", cpu))
    real = module_gate(x, live, band([-0.3] * 2, [0.2] * 2))
    x = alignment(LAYOUT, gradients, random_direction(LAYOUT, 1, "other", cpu))
    matched = matched_shares(x, real, live)
    assert not torch.equal(matched, real)
    for module in range(2):
        assert torch.equal(matched[:, module].sort().values, real[:, module].sort().values)
        rows = live[:, module]
        assert (matched[rows, module][x[rows, module].argsort()].diff() >= 0).all()
    assert torch.equal(matched[~live], torch.zeros(int((~live).sum())))
    uniform = uniform_shares(real, live)
    assert torch.allclose(uniform.sum(0), real.sum(0)) and not uniform[4].any()
    assert len(set(uniform[live[:, 1], 1].tolist())) == 1


def test_a_split_takes_its_direction_from_what_it_is_named_for_and_controls_come_after_it() -> None:
    found = {
        name: extract(SPLITS[name].source, LAYOUT, sides(), 1, 3, name) for name in ("real", "permuted", "band_random")
    }
    assert found["real"].separation() > 0.3
    assert found["permuted"].separation() < found["real"].separation() / 2
    assert alignment(LAYOUT, found["band_random"].direction, found["real"].direction).abs().max() < 0.9
    assert [split.name for split in chosen_splits(("random_2", "uniform"))] == ["real", "uniform", "random_2"]


def test_activations_are_centred_and_carry_the_sign_of_the_advantage() -> None:
    state = extract("activations", LAYOUT, sides(), 1, 3, "activations")
    given = PairSides(sides().rej + 100, sides().cho + 100)
    shifted = extract("activations", LAYOUT, given, 1, 3, "activations")
    assert torch.allclose(shifted.upper, state.upper, atol=1e-3)  # raw cosines would all be 1
    inputs = torch.cat([given.rej[:1], given.cho[:1], given.rej[:1]])
    rows = replace(live_rows(drawn(3, 12), torch.tensor([1.0, 1.0, -1.0])), inputs=inputs)
    x, shares = route(SPLITS["activations"], shifted, (LAYOUT, LAYOUT), rows, 0, {})
    assert (x[0] > 0.3).all() and (x[1] < -0.1).all() and torch.equal(x[2], -x[0])
    assert (shares[0] > shares[1]).all() and (shares[0] > shares[2]).all()
