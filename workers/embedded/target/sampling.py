"""How the next token of a request is chosen: the bias of its individual, then its own random generator."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Sequence

import torch

from workers.embedded.target.protocol import SamplingParams
from workers.steering.batch import biases
from workers.steering.request import OPEN, Steering

CACHED_BIASES = 128  # 200 kB each at a vocabulary of 49,152
GREEDY_BELOW = 1e-6  # temperature, as in SGLang


class BiasCache:
    """Biases deltas[labels], [vocabulary] float32, up to two an individual; the least recently used are dropped."""

    def __init__(self, vocabulary: int) -> None:
        self._vocabulary = vocabulary
        self._biases: OrderedDict[tuple[str, bytes, int], torch.Tensor] = OrderedDict()

    def get(self, steering: Steering, answer: Sequence[int]) -> torch.Tensor:
        """What is added behind the tokens of an answer: cluster 0 has its delta only where they may end there.

        Zero for the logits that a model has beyond its tokenizer. The labels fit the vocabulary (`protocol`).
        """
        key = (steering.clustering, steering.deltas.tobytes(), steering.state(answer) & OPEN)
        if key not in self._biases:
            labels = torch.zeros(1, self._vocabulary, dtype=torch.int64)
            labels[0, : len(steering.labels)] = torch.from_numpy(steering.labels.astype("int64") + 1)
            deltas = torch.tensor([[0.0, *steering.deltas.tolist()]])
            self._biases[key] = biases(deltas, torch.tensor([key[2]], dtype=torch.int8), labels)[0]
        self._biases.move_to_end(key)
        if len(self._biases) > CACHED_BIASES:
            self._biases.popitem(last=False)
        return self._biases[key]


class Sampler:
    """Chooses tokens for one request. Greedy takes the highest logit, ties to the lowest id, and never draws."""

    def __init__(self, sampling: SamplingParams) -> None:
        self._sampling = sampling
        self._generator = torch.Generator()
        seed = secrets.randbits(63) if sampling.sampling_seed is None else sampling.sampling_seed
        self._generator.manual_seed(seed)

    def choose(self, logits: torch.Tensor) -> int:
        """The next token. logits [vocabulary] float32."""
        if self._sampling.temperature < GREEDY_BELOW:
            # Equal logits are common in bfloat16; on a CPU argmax gives the first of them.
            return int(logits.argmax())
        return self._draw(logits / self._sampling.temperature)

    def _draw(self, logits: torch.Tensor) -> int:
        if self._sampling.top_k == -1 and self._sampling.top_p == 1.0:
            return int(torch.multinomial(torch.softmax(logits, -1), 1, generator=self._generator))
        ordered, ids = torch.sort(logits, descending=True, stable=True)  # stable: ties to the lowest id
        if self._sampling.top_k != -1:
            ordered, ids = ordered[: self._sampling.top_k], ids[: self._sampling.top_k]
        probabilities = torch.softmax(ordered, -1)
        # A token stays while those before it do not reach top_p together, so the first always stays.
        probabilities[probabilities.cumsum(-1) - probabilities >= self._sampling.top_p] = 0
        return int(ids[torch.multinomial(probabilities, 1, generator=self._generator)])
