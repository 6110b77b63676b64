"""logits += deltas[labels], in torch: the whole of the steering, for SGLang's processor and the embedded server."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch


def padded_labels(
    labels: npt.NDArray[np.unsignedinteger], clusters: int, width: int, device: torch.device
) -> torch.Tensor:
    """Labels [V] as an int64 index [width] on the device.

    A model's logits may be wider than its tokenizer: the columns on top point at cluster `clusters`, one past the
    last, whose delta is always zero (see `padded_deltas`).

    Raises: ValueError when there are more labels than logits.
    """
    if len(labels) > width:
        raise ValueError(f"{len(labels)} labels do not fit a vocabulary of {width}")
    index = torch.full((width,), clusters, dtype=torch.int64)
    index[: len(labels)] = torch.from_numpy(labels.astype(np.int64))
    return index.to(device)


def padded_deltas(deltas: list[list[float]] | npt.NDArray[np.float32], device: torch.device) -> torch.Tensor:
    """Deltas [rows, K] as float32 [rows, K + 1] on the device, the last column zero."""
    values = torch.as_tensor(deltas, dtype=torch.float32)
    return torch.nn.functional.pad(values, (0, 1)).to(device, non_blocking=True)
