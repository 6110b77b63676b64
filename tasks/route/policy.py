"""A causal language model under its adapter: samples, log-probabilities, and the gradient of each row's own loss.

The gradient of a row comes from an additive zero probe [B, R] on the knobs, one for each row.  Dividing the gradient
of a gate by deltaS would give it too, but deltaS is zero at the start.

The loss is GRPO's as Dr.GRPO has it: advantages without the standard deviation, losses with a fixed denominator.  A
step has one update, at the knobs that sampled: the ratio to the sampling policy is 1, and its gradient that of the
log-probability.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from tasks.route.adapter import Adapter

SAMPLED_ROWS = 512
_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]  # not cuDNN's

Draw = Callable[[Tensor, Tensor, int], Tensor]
"""Logits [G, V], the place [G] of each row among all prompts, and how many tokens it has -> its next token [G]."""
RowLoss = Callable[[Tensor, Tensor, slice], Tensor]
"""(log-probabilities [B, L], mask [B, L], which of all rows these are) -> the loss of each row [B]."""


class CausalLM(nn.Module):
    """`network` is a `...ForCausalLM`; a completion ends with one of the tokens `end`.  Nothing is dropped out."""

    def __init__(self, network: Any, end: frozenset[int]) -> None:
        from transformers import GenerationConfig

        super().__init__()
        self.network: Any = network.eval()
        self.network.generation_config = GenerationConfig()  # not the model's penalties and limits
        self.end = end

    def hidden(self, ids: Tensor) -> Tensor:
        """The last hidden states [B, T, d]; rows are padded on the right, where causal attention does not look.

        So no mask is needed.  With one, the gradient of cuDNN's attention is NaN at some lengths (PyTorch's issue
        196678), and neither a mask nor cuDNN is used.
        """
        with sdpa_kernel(_KERNELS):
            states: Tensor = self.network.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state
        return states

    def logits(self, hidden: Tensor) -> Tensor:
        """[N, d] -> [N, V] float32."""
        logits: Tensor = self.network.get_output_embeddings()(hidden)
        return logits.float()

    @torch.no_grad()
    def generate(self, prompts: Sequence[tuple[int, ...]], longest: int, draw: Draw) -> list[list[int]]:
        """At most `longest` tokens for each prompt, with whatever comes after its end."""
        from transformers import GenerationConfig, LogitsProcessorList

        width, device = max(map(len, prompts)), self.network.device
        ids = torch.tensor([[0] * (width - len(row)) + list(row) for row in prompts], device=device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prompts], device=device)
        rows = torch.arange(len(prompts), device=device)

        def drawn(so_far: Tensor, scores: Tensor) -> Tensor:
            tokens = draw(scores, rows, so_far.shape[1] - width)
            return torch.full_like(scores, -torch.inf).scatter(1, tokens[:, None], 0.0)

        found = self.network.generate(
            ids,
            attention_mask=mask,
            generation_config=GenerationConfig(
                max_new_tokens=longest, do_sample=False, eos_token_id=sorted(self.end), pad_token_id=0
            ),
            logits_processor=LogitsProcessorList([drawn]),
        )
        completions: list[list[int]] = found[:, width:].tolist()
        return completions


def load_causal_lm(folder: Path, device: str, dtype: torch.dtype, end: frozenset[int]) -> CausalLM:
    from transformers import AutoModelForCausalLM

    if not end:
        raise ValueError(f"the tokenizer of {folder} has no token that ends a turn")
    options = {"dtype": dtype, "local_files_only": True}
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False, **options)
    return CausalLM(model.to(device), end)


def seed_of(*parts: object) -> int:
    """A seed below 2^63 that depends on all parts and on nothing else."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") >> 1


def draw_from(generator: torch.Generator) -> Draw:
    """Samples at temperature 1; what a row gets depends on the other rows."""

    def draw(logits: Tensor, _rows: Tensor, _step: int) -> Tensor:
        return torch.multinomial(torch.softmax(logits.float(), dim=1), 1, generator=generator)[:, 0]

    return draw


def draw_by_row(seed: int, numbers: Sequence[int], longest: int, device: torch.device) -> Draw:
    """Samples at temperature 1 with random numbers that depend on the seed and the row's number alone.

    So a row is the same whatever else is sampled beside it, and rows of one number are paired.
    """
    drawn = [torch.rand(longest, generator=torch.Generator().manual_seed(seed_of(seed, number))) for number in numbers]
    chances = torch.stack(drawn).to(device)

    def draw(logits: Tensor, rows: Tensor, step: int) -> Tensor:
        below = torch.softmax(logits.float(), dim=1).cumsum(1)
        wanted = chances[rows, step, None] * below[:, -1:]
        return torch.searchsorted(below, wanted, right=True)[:, 0].clamp(max=logits.shape[1] - 1)

    return draw


@dataclass(frozen=True)
class TokenRow:
    """A prompt and what came after it, both at least one token."""

    prompt: tuple[int, ...]
    completion: tuple[int, ...]


@dataclass(frozen=True)
class RowBatch:
    """B rows `ids`, padded on the right to T tokens; `inside` [B, T] is true where one is of the completion.

    `mask` [B, L] is 1 as often as a completion has tokens, and 0 up to the longest one of all.
    """

    ids: Tensor
    inside: Tensor
    mask: Tensor


def pad_rows(rows: Sequence[TokenRow], length: int, device: torch.device) -> RowBatch:
    texts = [row.prompt + row.completion for row in rows]
    width = max(map(len, texts))
    ids = torch.tensor([text + (0,) * (width - len(text)) for text in texts], device=device)
    starts = torch.tensor([[len(row.prompt)] for row in rows], device=device)
    counts = torch.tensor([[len(row.completion)] for row in rows], device=device)
    places = torch.arange(max(width, length), device=device)
    inside = (places[:width] >= starts) & (places[:width] < starts + counts)
    return RowBatch(ids, inside, (places[:length] < counts).float())


@dataclass(frozen=True)
class RowGradients:
    """The gradient of each row's loss [G, R] float32, its log-probabilities [G, L] on the way, their mask [G, L].

    `inputs`: the mean input of each module over each completion's tokens, [G, D]; [G, 0] where they were not asked for.
    """

    gradients: Tensor
    log_probabilities: Tensor
    mask: Tensor
    inputs: Tensor

    def finite(self) -> Tensor:
        """[G]: whether all that a row has are numbers, neither NaN nor infinite."""
        return torch.cat([self.gradients, self.log_probabilities, self.inputs], dim=1).isfinite().all(1)

    def without(self, rows: Tensor) -> RowGradients:
        """The same with zeros for the rows [G], so that they count nowhere."""
        found = {name: getattr(self, name) for name in ("gradients", "log_probabilities", "inputs")}
        return replace(self, **{name: each.masked_fill(rows[:, None], 0) for name, each in found.items()})


class Policy:
    """A model under its adapter.  Knobs are [R] for all rows, or [G, R], each row its own.

    `rows_at_once` train together, `tokens_at_once` go through the head: the logits of a whole batch would need more
    memory than all else.  `deterministic`: gradients do not depend on the order in which a GPU's threads add.
    """

    def __init__(
        self,
        model: CausalLM,
        adapter: Adapter,
        rows_at_once: int,
        tokens_at_once: int = 1024,
        deterministic: bool = False,
    ) -> None:
        self.model, self.adapter = model, adapter
        self._rows, self._tokens, self._deterministic = rows_at_once, tokens_at_once, deterministic

    def sample(
        self, prompts: Sequence[tuple[int, ...]], knobs: Tensor, longest: int, draw: Draw
    ) -> list[tuple[int, ...]]:
        """A completion for each prompt, its end token included; `SAMPLED_ROWS` at a time."""
        found: list[tuple[int, ...]] = []
        for start in range(0, len(prompts), SAMPLED_ROWS):
            part = slice(start, start + SAMPLED_ROWS)

            def draw_part(logits: Tensor, rows: Tensor, step: int, start: int = start) -> Tensor:
                return draw(logits, rows + start, step)

            with self.adapter.active(_of(knobs, part)):
                drawn = self.model.generate(prompts[part], longest, draw_part)
            for row in drawn:
                ends = [place for place, token in enumerate(row, 1) if token in self.model.end]
                found.append(tuple(row[: ends[0]] if ends else row))
        return found

    @torch.no_grad()
    def log_probabilities(self, rows: Sequence[TokenRow], knobs: Tensor) -> Tensor:
        """[G, L] of each completion's tokens, 0 beyond its end."""
        found: list[Tensor] = []
        for part, batch in self._batches(rows):
            with self.adapter.active(_of(knobs, part)):
                found.append(self._log_probabilities(batch))
        return torch.cat(found)

    def gradients(self, rows: Sequence[TokenRow], knobs: Tensor, loss: RowLoss, record: bool = False) -> RowGradients:
        """Each row's own gradient: the sum over rows is the gradient of the sum of losses.

        With `record`, the inputs of the modules are taken from the same pass, laid out as `adapter.inputs`.
        """
        found = []
        for part, batch in self._batches(rows):
            probe = torch.zeros(len(batch.ids), self.adapter.layout.total, device=self.adapter.device)
            knobs_of_rows = _of(knobs, part) + probe.requires_grad_(True)
            with (
                torch.enable_grad(),
                _determinism(self._deterministic),
                self.adapter.active(knobs_of_rows, batch.inside if record else None) as means,
            ):
                log_probabilities = self._log_probabilities(batch)
                (gradient,) = torch.autograd.grad(loss(log_probabilities, batch.mask, part).sum(), probe)
            inputs = torch.cat(means, dim=1) if record else gradient[:, :0]
            found.append((gradient, log_probabilities.detach(), batch.mask, inputs))
        return RowGradients(*map(torch.cat, zip(*found, strict=True)))

    def _batches(self, rows: Sequence[TokenRow]) -> list[tuple[slice, RowBatch]]:
        length = max(len(row.completion) for row in rows)
        parts = [slice(start, min(start + self._rows, len(rows))) for start in range(0, len(rows), self._rows)]
        return [(part, pad_rows(rows[part], length, self.adapter.device)) for part in parts]

    def _log_probabilities(self, batch: RowBatch) -> Tensor:
        states, targets = self.model.hidden(batch.ids)[:, :-1][batch.inside[:, 1:]], batch.ids[batch.inside]
        parts = zip(torch.split(states, self._tokens), torch.split(targets, self._tokens), strict=True)
        # The logits [N, V] are computed again for the gradient, not kept.
        chosen = torch.cat([checkpoint(self._chosen, *part, use_reentrant=False) for part in parts])
        return torch.zeros_like(batch.mask).masked_scatter(batch.mask.bool(), chosen)

    def _chosen(self, states: Tensor, targets: Tensor) -> Tensor:
        """The log-probability of each target [N]."""
        logits = self.model.logits(states)
        return logits.gather(1, targets[:, None])[:, 0] - logits.logsumexp(1)


def _of(knobs: Tensor, part: slice) -> Tensor:
    return knobs if knobs.dim() == 1 else knobs[part]


@contextmanager
def _determinism(wanted: bool) -> Iterator[None]:
    """For gradients alone: sampling has operations on a GPU that are refused then."""
    torch.use_deterministic_algorithms(wanted)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


# The negative log-likelihood of each row [B], a token and in all; `RowLoss`.
def mean_nll(log_probabilities: Tensor, mask: Tensor, part: slice) -> Tensor:
    return -(log_probabilities * mask).sum(1) / mask.sum(1)


def total_nll(log_probabilities: Tensor, mask: Tensor, part: slice) -> Tensor:
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
