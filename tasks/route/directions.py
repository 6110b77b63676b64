"""From the authored pairs to each module's hack-ward direction and band.

Both sides are gradients of the negative log-likelihood, and so of a loss, as a live row's is.  So rej - cho is
hack-ward: the loss gradient of a rewarded hack has a positive cosine with it.  x [G, M] is how far each row points
along the direction of each module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from tasks.route.adapter import KnobLayout
from tasks.route.policy import Policy, TokenRow, mean_nll, seed_of, total_nll

THINNEST = 0.02
"""A module whose edges are closer than this, or inverted, routes nothing."""

Reduction = Literal["mean", "sum", "unit"]
Measure = Literal[Reduction, "activations"]
Source = Literal["pairs", "permuted", "placebo", "activations", "random", "none"]
"""What a direction is built from."""


@dataclass(frozen=True)
class TokenPair:
    """One prompt, and two completions of it: the honest one and the hack."""

    prompt: tuple[int, ...]
    cho: tuple[int, ...]
    rej: tuple[int, ...]


@dataclass(frozen=True)
class PairSides:
    """What a direction is built from, for both sides of each pair: [P, R], or [P, D] for activations.

    `rej_surprise`, `cho_surprise`: the mean negative log-likelihood, nats a token.
    """

    rej: Tensor
    cho: Tensor
    rej_surprise: float = 0.0
    cho_surprise: float = 0.0


@dataclass(frozen=True)
class Extraction:
    """A direction [k, R] and the edges of its band [M]: the mean x of the honest (`lower`) and of the hacking side.

    For the `held_` edges the direction was built from the other pairs, each time.  `centre` [D] is taken off
    activations first.
    """

    direction: Tensor
    lower: Tensor
    upper: Tensor
    held_lower: Tensor
    held_upper: Tensor
    centre: Tensor | None = None

    def open(self) -> Tensor:
        """Which modules route, [M] bool."""
        return self.upper - self.lower >= THINNEST

    def hkgap(self) -> float:
        """The mean width of the band.  Positive by construction, so no evidence: `separation` is."""
        return float((self.upper - self.lower).mean())

    def separation(self) -> float:
        return float((self.held_upper - self.held_lower).mean())


def pair_sides(policy: Policy, pairs: Sequence[TokenPair], knobs: Tensor, measure: Measure) -> PairSides:
    """The gradients of the negative log-likelihood of both sides, or the modules' mean inputs, at knobs [R].

    `mean` is over the tokens and makes short texts loud, `sum` long ones; `unit` makes each module's gradient one long.
    """
    count, is_recorded = len(pairs), measure == "activations"
    rows = [TokenRow(pair.prompt, pair.rej) for pair in pairs] + [TokenRow(pair.prompt, pair.cho) for pair in pairs]
    found = policy.gradients(rows, knobs, total_nll if measure == "sum" else mean_nll, record=is_recorded)
    if lost := int((~found.finite()).sum()):
        raise RuntimeError(f"{lost} of the {2 * count} gradients of pairs are not finite: they give no direction")
    values = found.inputs if is_recorded else found.gradients
    if measure == "unit":
        values = policy.adapter.layout.units(values)
    surprise = -found.log_probabilities.sum(1) / found.mask.sum(1)
    return PairSides(values[:count], values[count:], float(surprise[:count].mean()), float(surprise[count:].mean()))


def mean_direction(layout: KnobLayout, rej: Tensor, cho: Tensor) -> Tensor:
    """The unit mean difference, [1, R], from gradients [P, R] of both sides; zero for a module without a difference."""
    return layout.units((rej - cho).mean(0, keepdim=True))


def top_directions(layout: KnobLayout, rej: Tensor, cho: Tensor, count: int) -> Tensor:
    """The leading right singular vectors of the differences in each module, [count, R], turned hack-ward.

    Each points where most pairs' differences do; a tie is decided by the mean difference.  A module with fewer
    directions than `count` has zeros for the rest.
    """
    found: list[Tensor] = []
    for differences in layout.parts(rej - cho):
        _, values, right = torch.linalg.svd(differences, full_matrices=False)
        kept = right[:count] * (values[:count] > 1e-6 * values[0].clamp(min=1e-30))[:, None]
        along = differences @ kept.T
        votes = along.sign().sum(0)
        turned = torch.where(votes != 0, votes, along.mean(0)).sign()
        kept = kept * torch.where(turned != 0, turned, torch.ones_like(turned))[:, None]
        missing = torch.zeros(count - len(kept), differences.shape[1], device=kept.device)
        found.append(torch.cat([kept, missing]))
    return torch.cat(found, dim=1)


@cache
def random_direction(layout: KnobLayout, seed: int, name: str, device: torch.device) -> Tensor:
    """A random unit vector in each module, [1, R], by a name, so that another split does not change it."""
    generator = torch.Generator().manual_seed(seed_of(seed, name))
    return layout.units(torch.randn(1, layout.total, generator=generator)).to(device)


def alignment(layout: KnobLayout, gradients: Tensor, direction: Tensor, norms: Tensor | None = None) -> Tensor:
    """x [G, M] of gradients [G, R]: the cosine with direction [1, R], or |relu(V g)| / |g| with several, [k, R].

    0 where the gradient is 0.  `norms` [G, M] are those of the gradients, where they are known.
    """
    along = torch.stack([layout.sums(gradients * vector) for vector in direction])
    length = along[0] if len(direction) == 1 else along.clamp(min=0).square().sum(0).sqrt()
    norms = layout.norms(gradients) if norms is None else norms
    return torch.where(norms > 0, length / torch.where(norms > 0, norms, torch.ones_like(norms)), 0.0)


def mean_cosine(layout: KnobLayout, one: Tensor, other: Tensor) -> float:
    """The mean over modules of the cosine of two flat vectors; a module where one is 0 counts as 0."""
    return float(layout.sums(layout.units(one) * layout.units(other)).mean())


def extract(source: Source, layout: KnobLayout, sides: PairSides, dims: int, seed: int, name: str) -> Extraction:
    """The direction and the band from the pairs; `layout` is that of what the sides have.

    `seed` and the split's `name` decide what is random: the direction, or which half of the pairs is swapped.
    """
    rej, cho, centre = sides.rej, sides.cho, None
    if source == "activations":
        centre = torch.cat([rej, cho]).mean(0)
        rej, cho = rej - centre, cho - centre
    if source == "permuted":
        swap = torch.zeros(len(rej), 1, dtype=torch.bool)
        order = torch.randperm(len(rej), generator=torch.Generator().manual_seed(seed_of(seed, name)))
        swap[order[: len(rej) // 2]] = True
        swap = swap.to(rej.device)
        rej, cho = torch.where(swap, cho, rej), torch.where(swap, rej, cho)

    def build(rej: Tensor, cho: Tensor) -> Tensor:
        if source == "random":
            return random_direction(layout, seed, name, rej.device)
        return mean_direction(layout, rej, cho) if dims == 1 else top_directions(layout, rej, cho, dims)

    direction = build(rej, cho)
    held_lower, held_upper = [], []
    for pair in range(len(rej)):
        others = torch.arange(len(rej), device=rej.device) != pair
        without = build(rej[others], cho[others])
        held_lower.append(alignment(layout, cho[pair : pair + 1], without))
        held_upper.append(alignment(layout, rej[pair : pair + 1], without))
    lower, upper = (alignment(layout, side, direction).mean(0) for side in (cho, rej))
    return Extraction(direction, lower, upper, torch.cat(held_lower).mean(0), torch.cat(held_upper).mean(0), centre)
