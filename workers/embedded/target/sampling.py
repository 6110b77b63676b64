"""The next token of one row, from its own steered logits and its own random generator."""

from __future__ import annotations

import secrets
from collections.abc import Collection

import torch

from workers.embedded.target.protocol import Sampling

GREEDY_BELOW = 1e-6  # temperature, as SGLang has it


class Sampler:
    """Chooses tokens for one request. Greedy takes the highest logit, ties to the lowest id, and never draws."""

    def __init__(self, sampling: Sampling, ends: Collection[int]) -> None:
        self._sampling = sampling
        self._ends = list(ends)
        self._generator = torch.Generator()
        seed = secrets.randbits(63) if sampling.sampling_seed is None else sampling.sampling_seed
        self._generator.manual_seed(seed)

    def choose(self, logits: torch.Tensor, produced: int) -> int:
        """logits [vocabulary] float32, `produced` tokens so far."""
        if produced < self._sampling.min_new_tokens:
            logits = logits.clone()
            logits[self._ends] = float("-inf")
        if self._sampling.temperature < GREEDY_BELOW:
            # Equal logits are common in bfloat16; of equal ones argmax gives the first, on a CPU.
            return int(logits.argmax())
        return self._drawn(logits / self._sampling.temperature)

    def _drawn(self, logits: torch.Tensor) -> int:
        if self._sampling.top_k == -1 and self._sampling.top_p == 1.0:
            return int(torch.multinomial(torch.softmax(logits, -1), 1, generator=self._generator))
        ordered, ids = torch.sort(logits, descending=True, stable=True)  # stable: ties to the lowest id
        if self._sampling.top_k != -1:
            ordered, ids = ordered[: self._sampling.top_k], ids[: self._sampling.top_k]
        chances = torch.softmax(ordered, -1)
        # A token stays while what comes before it has not yet reached top_p, so the first always stays.
        chances[chances.cumsum(-1) - chances >= self._sampling.top_p] = 0
        return int(ids[torch.multinomial(chances, 1, generator=self._generator)])
