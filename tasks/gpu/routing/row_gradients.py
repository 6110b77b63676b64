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

from tasks.gpu.routing.adapter import Adapter
from tasks.gpu.routing.causal_lm import CausalLM
from tasks.gpu.routing.static_decoding import StaticSampler
from tasks.gpu.routing.token_rows import RowBatch, TokenRow, longest_completion, pad_rows

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
