"""Log-probabilities of rows, and the gradient of each row's own loss with respect to the knobs.

The gradient of a row comes from an additive zero probe [B, R] on the knobs, one for each row.  Dividing the gradient
of a gate by deltaS would give it too, but deltaS is zero at the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tasks.route.adapter import Adapter, KnobLayout
from tasks.route.model import CausalLM, StaticSampler


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
        where = torch.zeros_like(self.ids)
        return where.scatter_reduce(1, self.before + 1, self.mask.long(), reduce="amax")


def longest_completion(rows: Sequence[TokenRow]) -> int:
    return max(len(row.completion) for row in rows)


def pad_rows(rows: Sequence[TokenRow], length: int, device: torch.device) -> RowBatch:
    """Padded on the right, where causal attention does not look; completions to `length`."""
    total = max(len(row.prompt) + len(row.completion) for row in rows)
    ids = torch.zeros(len(rows), total, dtype=torch.long)
    targets = torch.zeros(len(rows), length, dtype=torch.long)
    mask = torch.zeros(len(rows), length)
    before = torch.zeros(len(rows), length, dtype=torch.long)
    for number, row in enumerate(rows):
        tokens = row.prompt + row.completion
        ids[number, : len(tokens)] = torch.tensor(tokens)
        count = len(row.completion)
        targets[number, :count] = torch.tensor(row.completion)
        mask[number, :count] = 1
        before[number, :count] = torch.arange(count) + len(row.prompt) - 1
    return RowBatch(ids.to(device), targets.to(device), mask.to(device), before.to(device))


RowLoss = Callable[[Tensor, Tensor, slice], Tensor]
"""(log-probabilities [B, L], mask [B, L], which of all rows these are) -> the loss of each row [B]."""


@dataclass(frozen=True)
class RowGradients:
    """The gradient of each row's loss [G, R] float32, its log-probabilities [G, L] on the way, their mask [G, L].

    `inputs` are as `PolicyRows.activations`, where they were asked for.
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


class PolicyRows:
    """The rows' side of a model under an adapter.

    `rows_at_once` go through the model together, `tokens_at_once` through its head: the logits of a whole batch would
    need more memory than all else.  `sampler` is None where rows are sampled one kernel after another.
    `deterministic`: gradients do not depend on the order in which a GPU's threads add.
    """

    def __init__(
        self,
        model: CausalLM,
        adapter: Adapter,
        rows_at_once: int,
        tokens_at_once: int = 1024,
        sampler: StaticSampler | None = None,
        deterministic: bool = False,
    ) -> None:
        self.model = model
        self.adapter = adapter
        self.sampler = sampler
        self._deterministic = deterministic
        self._rows = rows_at_once
        self._tokens = tokens_at_once

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

        With `record`, the inputs of the modules are taken from the same pass.
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

    def activations(self, rows: Sequence[TokenRow], knobs: Tensor) -> Tensor:
        """The mean input of each module over each completion's tokens: [G, D], laid out as `adapter.inputs`."""
        found: list[Tensor] = []
        with torch.no_grad():
            for part, batch in self._batches(rows):
                where = batch.completion_positions()
                with self.adapter.active(_of(knobs, part)), self.adapter.recording(where) as inputs:
                    self.model.hidden(batch.ids)
                    found.append(torch.cat(inputs, dim=1))
        return torch.cat(found)

    def _batches(self, rows: Sequence[TokenRow]) -> list[tuple[slice, RowBatch]]:
        length = longest_completion(rows)
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


@contextmanager
def _determinism(wanted: bool) -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(wanted or before)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def _of(knobs: Tensor, part: slice) -> Tensor:
    return knobs if knobs.dim() == 1 else knobs[part]


def _chosen(model: CausalLM, states: Tensor, targets: Tensor) -> Tensor:
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


@dataclass(frozen=True)
class Adam:
    """Its settings; `decay` is decoupled, `largest_norm` limits the norm of the whole gradient (0: no limit)."""

    rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    decay: float = 0.0
    largest_norm: float = 0.0


@dataclass(frozen=True)
class Share:
    """Knobs [R] and the first moment of the gradients that they got [R]."""

    value: Tensor
    first: Tensor


@dataclass(frozen=True)
class StepScale:
    """What all shares have in common in one step: `clip`, and the root [R] that divides."""

    clip: float
    root: Tensor
    count: int


def whole_scale(gradient: Tensor, second: Tensor, count: int, adam: Adam) -> tuple[StepScale, Tensor]:
    """The scale of the step number `count` (from 1) and the new second moment, both by the whole gradient [R]."""
    norm = float(gradient.norm())
    clip = adam.largest_norm / norm if adam.largest_norm and norm > adam.largest_norm else 1.0
    clipped = gradient * clip
    second = adam.beta2 * second + (1 - adam.beta2) * clipped * clipped
    root = (second / (1 - adam.beta2**count)).sqrt() + adam.epsilon
    return StepScale(clip, root, count), second


def share_step(share: Share, gradient: Tensor, scale: StepScale, adam: Adam) -> Share:
    """A share after the gradient [R] that it got; a share is linear in its gradients, so shares add up."""
    first = _first(share, gradient, scale, adam)
    return Share(share.value * (1 - adam.rate * adam.decay) - adam.rate * _update(first, scale, adam), first)


def erased_step(
    layout: KnobLayout, share: Share, gradient: Tensor, scale: StepScale, adam: Adam, direction: Tensor
) -> Share:
    """As `share_step`, without the component of the update that is hack-ward along direction [k, R], in each module.

    Of the update, not of the gradient: divided by the root, a gradient without the component has it again.
    """
    first = _first(share, gradient, scale, adam)
    update = _update(first, scale, adam)
    for vector in direction:
        update = update - layout.spread(layout.sums(update * vector).clamp(min=0)) * vector
    return Share(share.value * (1 - adam.rate * adam.decay) - adam.rate * update, first)


def _first(share: Share, gradient: Tensor, scale: StepScale, adam: Adam) -> Tensor:
    return adam.beta1 * share.first + (1 - adam.beta1) * (gradient * scale.clip)


def _update(first: Tensor, scale: StepScale, adam: Adam) -> Tensor:
    return first / (1 - adam.beta1**scale.count) / scale.root


def no_share(total: int, device: torch.device) -> Share:
    """Knobs at zero that got no gradient yet."""
    return Share(torch.zeros(total, device=device), torch.zeros(total, device=device))
