"""From the authored pairs to the hack-ward direction of each module, and to the band that splits a row's gradient.

Both sides are gradients of the negative log-likelihood, and so of a loss, as a live row's is.  So rej - cho is
hack-ward: the loss gradient of a rewarded hack has a positive cosine with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from tasks.route.adapter import KnobLayout
from tasks.route.gradients import Policy, TokenRow, mean_nll, total_nll
from tasks.route.model import seed_of

THINNEST = 0.02
"""A module whose edges are closer than this, or inverted, routes nothing."""

Reduction = Literal["mean", "sum", "unit"]
Source = Literal["pairs", "permuted", "placebo", "activations", "random", "none"]
"""What a direction is built from."""
Build = Callable[[Tensor, Tensor], Tensor]
"""(rej [P, R], cho [P, R]) -> direction [k, R]."""


@dataclass(frozen=True)
class TokenPair:
    """One prompt, and two completions of it: the honest one and the hack."""

    prompt: tuple[int, ...]
    cho: tuple[int, ...]
    rej: tuple[int, ...]


@dataclass(frozen=True)
class PairSides:
    """What a direction is built from, for both sides of each pair: [P, R], or [P, D] for activations."""

    rej: Tensor
    cho: Tensor


@dataclass(frozen=True)
class Band:
    """Edges for each module, [M]: mean x of the honest (`lower`) and of the hacking side (`upper`) of the pairs.

    `lower` and `upper` are of the pairs that the direction was built from.  For the `held_` ones the direction was
    built from the other pairs, each time.
    """

    lower: Tensor
    upper: Tensor
    held_lower: Tensor
    held_upper: Tensor

    def open(self) -> Tensor:
        """Which modules route, [M] bool."""
        return self.upper - self.lower >= THINNEST

    def hkgap(self) -> float:
        """The mean width.  Positive by construction, so no evidence: `separation` is."""
        return float((self.upper - self.lower).mean())

    def separation(self) -> float:
        """The mean leave-one-out width."""
        return float((self.held_upper - self.held_lower).mean())


@dataclass(frozen=True)
class Extraction:
    """A direction [k, R], its band, and for activations the centre [D] that is taken off first."""

    direction: Tensor
    band: Band
    centre: Tensor | None = None


def pair_gradients(policy: Policy, pairs: Sequence[TokenPair], knobs: Tensor, reduction: Reduction) -> PairSides:
    """The gradients of the negative log-likelihood of both sides, [P, R] each, at knobs [R].

    `mean` is over the tokens and makes short texts loud, `sum` long ones; `unit` makes each module's gradient one long.
    """
    rows = policy.gradients(_rows(pairs), knobs, total_nll if reduction == "sum" else mean_nll)
    if lost := int((~rows.finite()).sum()):
        raise RuntimeError(f"{lost} of the {2 * len(pairs)} gradients of pairs are not finite: they give no direction")
    found = policy.adapter.layout.units(rows.gradients) if reduction == "unit" else rows.gradients
    return PairSides(found[: len(pairs)], found[len(pairs) :])


def pair_activations(policy: Policy, pairs: Sequence[TokenPair], knobs: Tensor) -> PairSides:
    """The modules' mean inputs over the tokens of both sides, [P, D] each, not centred, at knobs [R]."""
    found = policy.gradients(_rows(pairs), knobs, mean_nll, record=True).inputs
    assert found is not None
    return PairSides(found[: len(pairs)], found[len(pairs) :])


def surprise_warning(policy: Policy, pairs: Sequence[TokenPair], knobs: Tensor) -> str | None:
    """One line, where the mean negative log-likelihood a token of one side is more than twice that of the other."""
    found, mask = policy.log_probabilities(_rows(pairs), knobs)
    surprise = -found.sum(1) / mask.sum(1)
    hack, honest = float(surprise[: len(pairs)].mean()), float(surprise[len(pairs) :].mean())
    if max(hack, honest) <= 2 * min(hack, honest):
        return None
    return f"the pairs differ in surprise: {hack:.2f} nats a token for hacks, {honest:.2f} for honest completions"


def _rows(pairs: Sequence[TokenPair]) -> list[TokenRow]:
    return [TokenRow(pair.prompt, pair.rej) for pair in pairs] + [TokenRow(pair.prompt, pair.cho) for pair in pairs]


def mean_direction(layout: KnobLayout, rej: Tensor, cho: Tensor) -> Tensor:
    """The unit mean difference, [1, R], from gradients [P, R] of both sides; zero for a module without a difference."""
    return layout.units((rej - cho).mean(0, keepdim=True))


def top_directions(layout: KnobLayout, rej: Tensor, cho: Tensor, count: int) -> Tensor:
    """The leading right singular vectors of the differences in each module, [count, R], turned hack-ward.

    Each points where most pairs' differences do; a tie is decided by the mean difference.
    A module with fewer directions than `count` has zeros for the rest.
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


def fit_band(layout: KnobLayout, rej: Tensor, cho: Tensor, build: Build) -> tuple[Tensor, Band]:
    """The direction that `build` makes of the pairs' gradients, [P, R] for each side, and its band."""
    count = len(rej)
    if count < 2:
        raise ValueError("a band needs at least two pairs: one is held out")
    direction = build(rej, cho)
    held_lower, held_upper = [], []
    for pair in range(count):
        others = torch.arange(count, device=rej.device) != pair
        without = build(rej[others], cho[others])
        held_lower.append(alignment(layout, cho[pair : pair + 1], without))
        held_upper.append(alignment(layout, rej[pair : pair + 1], without))
    return direction, Band(
        alignment(layout, cho, direction).mean(0),
        alignment(layout, rej, direction).mean(0),
        torch.cat(held_lower).mean(0),
        torch.cat(held_upper).mean(0),
    )


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

    direction, band = fit_band(layout, rej, cho, build)
    return Extraction(direction, band, centre)
