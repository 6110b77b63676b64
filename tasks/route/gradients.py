"""A model under its adapter: log-probabilities of rows, and the gradient of each row's own loss.

The gradient of a row comes from an additive zero probe [B, R] on the knobs, one for each row.  Dividing the gradient
of a gate by deltaS would give it too, but deltaS is zero at the start.

The loss is GRPO's as Dr.GRPO has it: advantages without the standard deviation, losses with a fixed denominator.  A
step has one update, at the knobs that sampled: the ratio to the sampling policy is 1, and its gradient that of the
log-probability.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tasks.route.adapter import Adapter
from tasks.route.model import Draw, Network

RowLoss = Callable[[Tensor, Tensor, slice], Tensor]
"""(log-probabilities [B, L], mask [B, L], which of all rows these are) -> the loss of each row [B]."""


@dataclass(frozen=True)
class TokenRow:
    """A prompt and what came after it, both at least one token."""

    prompt: tuple[int, ...]
    completion: tuple[int, ...]


@dataclass(frozen=True)
class RowBatch:
    """B rows, padded on the right to T tokens; completions to L.

    ids [B, T]; targets [B, L] are the completions' tokens, mask [B, L] is 1 where one is, and
    `before` [B, L] the position that predicts it.
    """

    ids: Tensor
    targets: Tensor
    mask: Tensor
    before: Tensor

    def completion_positions(self) -> Tensor:
        """1 where `ids` has a token of the completion, [B, T]."""
        return torch.zeros_like(self.ids).scatter_reduce(1, self.before + 1, self.mask.long(), reduce="amax")


def pad_rows(rows: Sequence[TokenRow], length: int, device: torch.device) -> RowBatch:
    """Padded on the right, where causal attention does not look; completions to `length`."""
    total = max(len(row.prompt) + len(row.completion) for row in rows)
    ids = torch.zeros(len(rows), total, dtype=torch.long)
    targets = torch.zeros(len(rows), length, dtype=torch.long)
    mask = torch.zeros(len(rows), length)
    before = torch.zeros(len(rows), length, dtype=torch.long)
    for number, row in enumerate(rows):
        tokens, count = row.prompt + row.completion, len(row.completion)
        ids[number, : len(tokens)] = torch.tensor(tokens)
        targets[number, :count] = torch.tensor(row.completion)
        mask[number, :count] = 1
        before[number, :count] = torch.arange(count) + len(row.prompt) - 1
    return RowBatch(ids.to(device), targets.to(device), mask.to(device), before.to(device))


@dataclass(frozen=True)
class RowGradients:
    """The gradient of each row's loss [G, R] float32, its log-probabilities [G, L] on the way, their mask [G, L].

    `inputs` are those of the modules, where they were asked for.
    """

    gradients: Tensor
    log_probabilities: Tensor
    mask: Tensor
    inputs: Tensor | None

    def finite(self) -> Tensor:
        """[G]: whether all that a row has are numbers, neither NaN nor infinite."""
        every = [self.gradients, self.log_probabilities, *([] if self.inputs is None else [self.inputs])]
        return torch.stack([values.isfinite().all(1) for values in every]).all(0)

    def without(self, rows: Tensor) -> RowGradients:
        """The same with zeros for the rows [G], so that they count nowhere."""
        out = rows[:, None]
        return replace(
            self,
            gradients=self.gradients.masked_fill(out, 0),
            log_probabilities=self.log_probabilities.masked_fill(out, 0),
            inputs=None if self.inputs is None else self.inputs.masked_fill(out, 0),
        )


class RowSampler(Protocol):
    """`tasks.route.model.Sampler`, or that of a world of one's own."""

    def sample(
        self, prompts: Sequence[tuple[int, ...]], knobs: Tensor, longest: int, draw: Draw
    ) -> list[tuple[int, ...]]: ...


class Policy:
    """A model under its adapter.

    `rows_at_once` go through the model together, `tokens_at_once` through its head: the logits of a whole batch would
    need more memory than all else.  `deterministic`: gradients do not depend on the order in which a GPU's threads add.
    """

    def __init__(
        self,
        model: Network,
        adapter: Adapter,
        sampler: RowSampler,
        rows_at_once: int,
        tokens_at_once: int = 1024,
        deterministic: bool = False,
    ) -> None:
        self.model, self.adapter, self.sampler = model, adapter, sampler
        self._rows, self._tokens, self._deterministic = rows_at_once, tokens_at_once, deterministic

    def log_probabilities(self, rows: Sequence[TokenRow], knobs: Tensor) -> tuple[Tensor, Tensor]:
        """[G, L] of each completion's tokens under knobs [R] or [G, R], 0 beyond its end, and the mask [G, L]."""
        found: list[Tensor] = []
        masks: list[Tensor] = []
        with torch.no_grad():
            for part, batch in self._batches(rows):
                with self.adapter.active(_of(knobs, part)):
                    found.append(self._log_probabilities(batch))
                masks.append(batch.mask)
        return torch.cat(found), torch.cat(masks)

    def gradients(self, rows: Sequence[TokenRow], knobs: Tensor, loss: RowLoss, record: bool = False) -> RowGradients:
        """Each row's own gradient: the sum over rows is the gradient of the sum of losses.

        With `record`, the inputs of the modules are taken from the same pass: the mean input of each module over each
        completion's tokens, [G, D], laid out as `adapter.inputs`.
        """
        gradients: list[Tensor] = []
        found: list[Tensor] = []
        masks: list[Tensor] = []
        inputs: list[Tensor] = []
        for part, batch in self._batches(rows):
            probe = torch.zeros(len(batch.ids), self.adapter.layout.total, device=self.adapter.device)
            probe.requires_grad_(True)
            recording: AbstractContextManager[list[Tensor]] = nullcontext([])
            if record:
                recording = self.adapter.recording(batch.completion_positions())
            with torch.enable_grad(), self.adapter.active(_of(knobs, part) + probe), _determinism(self._deterministic):
                with recording as means:
                    log_probabilities = self._log_probabilities(batch)
                if record:
                    inputs.append(torch.cat(means, dim=1))
                total = loss(log_probabilities, batch.mask, part).sum()
                (gradient,) = torch.autograd.grad(total, probe)
            gradients.append(gradient)
            found.append(log_probabilities.detach())
            masks.append(batch.mask)
        recorded = torch.cat(inputs) if record else None
        return RowGradients(torch.cat(gradients), torch.cat(found), torch.cat(masks), recorded)

    def _batches(self, rows: Sequence[TokenRow]) -> list[tuple[slice, RowBatch]]:
        length = max(len(row.completion) for row in rows)
        parts = [slice(start, min(start + self._rows, len(rows))) for start in range(0, len(rows), self._rows)]
        return [(part, pad_rows(rows[part], length, self.adapter.device)) for part in parts]

    def _log_probabilities(self, batch: RowBatch) -> Tensor:
        hidden = self.model.hidden(batch.ids)
        wanted = batch.mask.bool()
        states = hidden[wanted.nonzero()[:, 0], batch.before[wanted]]
        targets = batch.targets[wanted]
        chosen = torch.cat(
            [
                _chosen(self.model, states[start : start + self._tokens], targets[start : start + self._tokens])
                for start in range(0, len(states), self._tokens)
            ]
        )
        return torch.zeros_like(batch.mask).masked_scatter(wanted, chosen)


def _of(knobs: Tensor, part: slice) -> Tensor:
    return knobs if knobs.dim() == 1 else knobs[part]


@contextmanager
def _determinism(wanted: bool) -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(wanted or before)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def _chosen(model: Network, states: Tensor, targets: Tensor) -> Tensor:
    """The log-probability of each target [N]; the logits [N, V] are computed again for the gradient, not kept."""

    def compute(states: Tensor) -> Tensor:
        logits = model.logits(states).float()
        return logits.gather(1, targets[:, None])[:, 0] - logits.logsumexp(1)

    if not torch.is_grad_enabled():
        return compute(states)
    result: Tensor = checkpoint(compute, states, use_reentrant=False)
    return result


def mean_nll(log_probabilities: Tensor, mask: Tensor, part: slice) -> Tensor:
    """The negative log-likelihood a token of each row [B]; a `RowLoss`."""
    return -(log_probabilities * mask).sum(1) / mask.sum(1)


def total_nll(log_probabilities: Tensor, mask: Tensor, part: slice) -> Tensor:
    """The negative log-likelihood of each row [B]; a `RowLoss`."""
    return -(log_probabilities * mask).sum(1)


def policy_losses(
    new: Tensor, mask: Tensor, advantages: Tensor, denominator: float, reference: Tensor | None, beta: float
) -> Tensor:
    """The loss of each row [B] that enters the optimizer, its advantage [B] and KL term in it.

    new, reference: log-probabilities [B, L].  The KL term is k3: exp(d) - d - 1 with d = reference - new.
    """
    gained = new * advantages[:, None]
    if reference is not None:
        difference = reference - new
        gained = gained - beta * (difference.exp() - difference - 1)
    return -(gained * mask).sum(1) / denominator


def group_advantages(rewards: Tensor, groups: Tensor) -> tuple[Tensor, int]:
    """Reward minus the mean of the row's group, [G], and how many groups have no variance (advantage exactly 0)."""
    advantages = torch.zeros_like(rewards)
    skipped = 0
    for group in sorted(set(groups.tolist())):
        rows = groups == group
        own = rewards[rows]
        if bool((own == own[0]).all()):
            skipped += 1
        else:
            advantages[rows] = own - own.mean()
    return advantages, skipped
