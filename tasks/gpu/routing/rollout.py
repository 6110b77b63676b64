"""Completions sampled from a policy with given knobs, in training and in evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from tasks.gpu.routing.controls import seed_of
from tasks.gpu.routing.row_gradients import PolicyRows
from tasks.gpu.routing.sampling import draw_from, sample_completions
from tasks.gpu.routing.token_rows import TokenRow
from tasks.gpu.routing.world import PromptTokens, World, WorldScore


def sample_rows(
    policy: PolicyRows, prompts: Sequence[PromptTokens], knobs: Tensor, longest: int, fold: bool, seed: int
) -> list[TokenRow]:
    """A row for each prompt, sampled at temperature 1 with knobs [R], or [G, R].

    `fold` puts them into the weights meanwhile, which is faster; not into bfloat16, where small knobs would be lost.
    """
    if not prompts:
        return []
    generator = torch.Generator(policy.adapter.device).manual_seed(seed)
    tokens = [prompt.tokens for prompt in prompts]
    adapter, draw = policy.adapter, draw_from(generator)
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


def evaluate_knobs(
    policy: PolicyRows,
    world: World,
    prompts: Sequence[PromptTokens],
    knobs: Tensor,
    longest: int,
    seed: int,
    *,
    fold: bool = False,
    at_once: int = 128,
) -> list[WorldScore]:
    """One sample and its score for each prompt; nothing of the policy changes."""
    scores: list[WorldScore] = []
    for start in range(0, len(prompts), at_once):
        part = prompts[start : start + at_once]
        rows = sample_rows(policy, part, knobs, longest, fold, seed_of(seed, start))
        scores += world.score(part, [row.completion for row in rows])
    return scores


def evaluate_deployments(
    policy: PolicyRows,
    world: World,
    asked: Sequence[tuple[PromptTokens, Tensor]],
    longest: int,
    seed: int,
    at_once: int = 512,
) -> Iterator[list[WorldScore]]:
    """The scores of (prompt, knobs [R]) of many deployments, which are sampled in the same batches; a batch at a time.

    Programs are graded while the next batch is sampled.  Nothing of the policy changes.
    """
    with ThreadPoolExecutor(1, "scores") as thread:
        waiting: Future[list[WorldScore]] | None = None
        for start in range(0, len(asked), at_once):
            prompts = [prompt for prompt, _ in asked[start : start + at_once]]
            knobs = torch.stack([each for _, each in asked[start : start + at_once]])
            rows = sample_rows(policy, prompts, knobs, longest, False, seed_of(seed, start))
            if waiting is not None:
                yield waiting.result()
            waiting = thread.submit(_scored, world, prompts, [row.completion for row in rows])
        if waiting is not None:
            yield waiting.result()


def _scored(world: World, prompts: Sequence[PromptTokens], completions: Sequence[tuple[int, ...]]) -> list[WorldScore]:
    return list(world.score(prompts, completions))
