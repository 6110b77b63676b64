"""The bias of each individual in flight, deltas[labels], made once and shared by its requests."""

from __future__ import annotations

from collections import OrderedDict

import torch

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
