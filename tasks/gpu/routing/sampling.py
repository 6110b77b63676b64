"""Sampling completions at temperature 1 from a model that says the next token's logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


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


def sample_completions(
    model: SamplingModel, prompts: Sequence[tuple[int, ...]], longest: int, generator: torch.Generator
) -> list[tuple[int, ...]]:
    """A completion for each prompt, its end token included; one without is cut at `longest` tokens."""
    completions: list[list[int]] = [[] for _ in prompts]
    going = set(range(len(prompts)))
    with torch.no_grad():
        decoding = model.decoding(prompts)
        for _ in range(longest):
            probabilities = torch.softmax(decoding.logits().float(), dim=1)
            tokens = torch.multinomial(probabilities, 1, generator=generator)[:, 0]
            for row, token in enumerate(tokens.tolist()):
                if row in going:
                    completions[row].append(token)
                    if token in model.end:
                        going.discard(row)
            if not going:
                break
            decoding.append(tokens)
    return [tuple(completion) for completion in completions]
