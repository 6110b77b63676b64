"""The authored pairs as the model sees them: for both sides the gradients, or the activations, and the surprise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from tasks.gpu.routing.row_gradients import PolicyRows, mean_nll, total_nll
from tasks.gpu.routing.splits import PairSides
from tasks.gpu.routing.token_rows import TokenRow

Reduction = Literal["mean", "sum", "unit"]


@dataclass(frozen=True)
class TokenPair:
    """One prompt, and two completions of it: the honest one and the hack."""

    prompt: tuple[int, ...]
    cho: tuple[int, ...]
    rej: tuple[int, ...]


def pair_gradients(policy: PolicyRows, pairs: Sequence[TokenPair], knobs: Tensor, reduction: Reduction) -> PairSides:
    """The gradients of the negative log-likelihood of both sides, [P, R] each, at knobs [R].

    `mean` is over the tokens and makes short texts loud, `sum` long ones; `unit` makes each module's gradient one long.
    """
    loss = total_nll if reduction == "sum" else mean_nll
    rows = policy.gradients(_rows(pairs), knobs, loss)
    if lost := int((~rows.finite()).sum()):
        raise RuntimeError(f"{lost} of the {2 * len(pairs)} gradients of pairs are not finite: they give no direction")
    found = rows.gradients
    if reduction == "unit":
        found = policy.adapter.layout.units(found)
    return PairSides(found[: len(pairs)], found[len(pairs) :])


def pair_activations(policy: PolicyRows, pairs: Sequence[TokenPair], knobs: Tensor) -> PairSides:
    """The modules' mean inputs over the tokens of both sides, [P, D] each, not centred, at knobs [R]."""
    found = policy.activations(_rows(pairs), knobs)
    return PairSides(found[: len(pairs)], found[len(pairs) :])


def pair_surprise(policy: PolicyRows, pairs: Sequence[TokenPair], knobs: Tensor) -> tuple[Tensor, Tensor]:
    """The negative log-likelihood a token, nats, of the hacks [P] and of the honest completions [P]."""
    found, mask = policy.log_probabilities(_rows(pairs), knobs)
    surprise = -found.sum(1) / mask.sum(1)
    return surprise[: len(pairs)], surprise[len(pairs) :]


def surprise_warning(rej: Tensor, cho: Tensor) -> str | None:
    """One line, where the mean surprise of one side is more than twice that of the other."""
    hack, honest = float(rej.mean()), float(cho.mean())
    if max(hack, honest) <= 2 * min(hack, honest):
        return None
    return f"the pairs differ in surprise: {hack:.2f} nats a token for hacks, {honest:.2f} for honest completions"


def _rows(pairs: Sequence[TokenPair]) -> list[TokenRow]:
    return [TokenRow(pair.prompt, pair.rej) for pair in pairs] + [TokenRow(pair.prompt, pair.cho) for pair in pairs]
