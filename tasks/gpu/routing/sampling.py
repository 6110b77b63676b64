"""Sampling completions from a model that says the next token's logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tasks.gpu.routing.causal_lm import CausalLM
from tasks.gpu.routing.controls import seed_of

Draw = Callable[[Tensor, Tensor, int], Tensor]
"""Logits [G, V], the place [G] of each row among all prompts, and how many tokens it has -> its next token [G]."""


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


def sample_completions(
    model: CausalLM, prompts: Sequence[tuple[int, ...]], longest: int, draw: Draw
) -> list[tuple[int, ...]]:
    """A completion for each prompt, its end token included; one without is cut at `longest` tokens."""
    completions: list[list[int]] = [[] for _ in prompts]
    going, rows = set(range(len(prompts))), torch.arange(len(prompts))
    with torch.no_grad():
        decoding = model.decoding(prompts)
        for step in range(longest):
            logits = decoding.logits()
            tokens = draw(logits, rows.to(logits.device), step)
            for row, token in enumerate(tokens.tolist()):
                if row in going:
                    completions[row].append(token)
                    if token in model.end:
                        going.discard(row)
            if not going:
                break
            decoding.append(tokens)
    return [tuple(completion) for completion in completions]
