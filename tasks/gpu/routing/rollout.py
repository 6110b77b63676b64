"""Completions sampled from a policy with given knobs, in training and in evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from tasks.gpu.routing.row_gradients import PolicyRows
from tasks.gpu.routing.sampling import Draw, draw_by_row, draw_from, sample_completions
from tasks.gpu.routing.token_rows import TokenRow
from tasks.gpu.routing.world import PromptTokens, World, WorldScore


def sample_rows(
    policy: PolicyRows, prompts: Sequence[PromptTokens], knobs: Tensor, longest: int, fold: bool, seed: int
) -> list[TokenRow]:
    """A row for each prompt, sampled at temperature 1 with knobs [R], or [G, R].

    `fold` puts them into the weights meanwhile, which is faster; not into bfloat16, where small knobs would be lost.
    """
    generator = torch.Generator(policy.adapter.device).manual_seed(seed)
    return _drawn_rows(policy, prompts, knobs, longest, fold, draw_from(generator)) if prompts else []


def _drawn_rows(
    policy: PolicyRows, prompts: Sequence[PromptTokens], knobs: Tensor, longest: int, fold: bool, draw: Draw
) -> list[TokenRow]:
    tokens, adapter = [prompt.tokens for prompt in prompts], policy.adapter
    if policy.sampler is not None:
        completions = policy.sampler.sample(tokens, knobs, longest, draw)
    else:
        folds = fold and adapter.folds_exactly and knobs.dim() == 1
        with adapter.folded(knobs) if folds else adapter.active(knobs):
            completions = sample_completions(policy.model, tokens, longest, draw)
    return [TokenRow(prompt, completion) for prompt, completion in zip(tokens, completions, strict=True)]


def fold_gap(policy: PolicyRows, rows: Sequence[TokenRow], knobs: Tensor) -> float:
    """The largest difference of a token's log-probability between folded weights and the training path, nats."""
    trained, _ = policy.log_probabilities(rows, knobs)
    with policy.adapter.folded(knobs):
        folded, _ = policy.log_probabilities(rows, policy.adapter.zeros())
    return float((folded - trained).abs().max())


@dataclass(frozen=True)
class AskedSample:
    """One prompt of a deployment with knobs [R]; samples of one `number` have the same random numbers."""

    prompt: PromptTokens
    knobs: Tensor
    number: int


def evaluate_samples(
    policy: PolicyRows, world: World, batches: Iterable[Sequence[AskedSample]], longest: int, seed: int
) -> Iterator[list[WorldScore]]:
    """The scores of each batch, whose rows are sampled together, each at temperature 1 with the knobs of its own.

    A batch is scored while the next one is sampled.  Nothing of the policy changes.
    """
    with ThreadPoolExecutor(1, "scores") as thread:
        waiting: Future[list[WorldScore]] | None = None
        for batch in batches:
            prompts = [asked.prompt for asked in batch]
            knobs = torch.stack([asked.knobs for asked in batch])
            draw = draw_by_row(seed, [asked.number for asked in batch], longest, policy.adapter.device)
            rows = _drawn_rows(policy, prompts, knobs, longest, False, draw)
            if waiting is not None:
                yield waiting.result()
            waiting = thread.submit(_scored, world, prompts, [row.completion for row in rows])
        if waiting is not None:
            yield waiting.result()


def _scored(world: World, prompts: Sequence[PromptTokens], completions: Sequence[tuple[int, ...]]) -> list[WorldScore]:
    return list(world.score(prompts, completions))
