"""The bias of each individual in flight, deltas[labels], made once and shared by its requests.

The next token of one row, from its own steered logits and its own random generator.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Collection

import torch

from workers.embedded.target.protocol import Sampling
from workers.steering.bias import padded_deltas, padded_labels
from workers.steering.parameters import Steering

KEPT = 64  # individuals; 200 kB each at a vocabulary of 49,152


class Biases:
    """Biases [vocabulary] float32 by clustering and deltas, the least recently used forgotten."""

    def __init__(self, vocabulary: int) -> None:
        self._vocabulary = vocabulary
        self._kept: OrderedDict[tuple[str, bytes], torch.Tensor] = OrderedDict()

    def get(self, steering: Steering) -> torch.Tensor:
        """Raises: ValueError when the clustering has more labels than the model has logits."""
        key = (steering.clustering, steering.deltas.tobytes())
        if key not in self._kept:
            cpu = torch.device("cpu")
            labels = padded_labels(steering.labels, len(steering.deltas), self._vocabulary, cpu)
            self._kept[key] = padded_deltas(steering.deltas[None], cpu)[0][labels]
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return self._kept[key]


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
