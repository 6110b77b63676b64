"""The labels of every clustering that a server has met, on its device, each loaded once."""

from __future__ import annotations

import torch

from .parameters import Steering

UNSTEERED = -1  # the place of a row that asks for no steering


class LabelTable:
    """One row of labels a clustering, in the order of arrival: tensor [clusterings, width].

    Labels lie shifted by one, so that 0 means "no cluster": that is what the columns get that a model's logits have
    beyond its tokenizer.  `rows.Rows` keeps a delta of zero there.
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._steerings: list[Steering] = []
        self._stacked: torch.Tensor | None = None

    def place(self, steering: Steering | None) -> int:
        """The row of a steering's clustering, a new one for a new clustering; UNSTEERED for None."""
        if steering is None:
            return UNSTEERED
        if steering.clustering not in self._places:
            self._places[steering.clustering] = len(self._steerings)
            self._steerings.append(steering)
        return self._places[steering.clustering]

    def labels(self, width: int, device: torch.device) -> torch.Tensor:
        """All rows as uint8 (int32 when a clustering has over 255 clusters) [clusterings, width].

        Moving them to the device waits for it, once for each new clustering.
        Raises: ValueError when a clustering has more labels than `width`.
        """
        stacked = self._stacked
        if stacked is None or stacked.shape != (len(self._steerings), width) or stacked.device != device:
            self._stacked = stacked = self._stack(width).to(device)
        return stacked

    def _stack(self, width: int) -> torch.Tensor:
        widest = max(int(steering.labels.max()) for steering in self._steerings) + 1
        stacked = torch.zeros(len(self._steerings), width, dtype=torch.uint8 if widest <= 255 else torch.int32)
        for row, steering in zip(stacked, self._steerings, strict=True):
            if len(steering.labels) > width:
                raise ValueError(f"{len(steering.labels)} labels do not fit a vocabulary of {width}")
            row[: len(steering.labels)] = torch.from_numpy(steering.labels.astype("int64") + 1)
        return stacked
