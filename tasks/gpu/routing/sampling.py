"""Sampling completions from a model that says the next token's logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

Draw = Callable[[Tensor], Tensor]
"""Logits [G, V] -> the next token of each row [G]."""


def draw_from(generator: torch.Generator) -> Draw:
    """Samples at temperature 1."""
    return lambda logits: torch.multinomial(torch.softmax(logits.float(), dim=1), 1, generator=generator)[:, 0]


class Decoding(Protocol):
    """A batch of rows that grow by one token each."""

    def logits(self) -> Tensor:
        """Of the next token of each row, [G, V]."""

    def append(self, tokens: Tensor) -> None:
        """The next token of each row [G]."""


class SamplingModel(Protocol):
    """A model that can be sampled from; `end` are the tokens after which a completion ends."""

    end: frozenset[int]

    def decoding(self, prompts: Sequence[tuple[int, ...]]) -> Decoding:
        """One row for each prompt."""


class RowSampler(Protocol):
    """Another way of sampling, faster where there is one; it takes the knobs itself."""

    def sample(
        self, prompts: Sequence[tuple[int, ...]], knobs: Tensor, longest: int, draw: Draw
    ) -> list[tuple[int, ...]]:
        """A completion for each prompt; knobs are [R], or [G, R]."""


def sample_completions(
    model: SamplingModel, prompts: Sequence[tuple[int, ...]], longest: int, draw: Draw
) -> list[tuple[int, ...]]:
    """A completion for each prompt, its end token included; one without is cut at `longest` tokens."""
    completions: list[list[int]] = [[] for _ in prompts]
    going = set(range(len(prompts)))
    with torch.no_grad():
        decoding = model.decoding(prompts)
        for _ in range(longest):
            tokens = draw(decoding.logits())
            for row, token in enumerate(tokens.tolist()):
                if row in going:
                    completions[row].append(token)
                    if token in model.end:
                        going.discard(row)
            if not going:
                break
            decoding.append(tokens)
    return [tuple(completion) for completion in completions]
