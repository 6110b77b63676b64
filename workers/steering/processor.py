"""The processor that SGLang imports by reference. Runs in its scheduler: torch, numpy and SGLang, nothing else.

The parameters were checked before they came here (`parameters.check`).  An error is never caught: text that was
quietly left unsteered would look like the answer of a weak individual.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor

from .bias import padded_deltas, padded_labels
from .parameters import LABELS_VARIABLE, check

__all__ = ["ClusterBias"]


# SGLang is not installed where types are checked, so its class is unknown there.
class ClusterBias(CustomLogitProcessor):  # type: ignore[misc,unused-ignore]
    """Adds to each row of logits [rows, V] the delta of each token's cluster. Its parameters: `parameters.check`."""

    def __call__(self, logits: torch.Tensor, custom_param_list: list[dict[str, Any]]) -> torch.Tensor:
        by_clustering: dict[str, list[int]] = {}
        for row, params in enumerate(custom_param_list):
            by_clustering.setdefault(params["clustering"], []).append(row)
        for clustering, rows in by_clustering.items():
            deltas = padded_deltas([custom_param_list[row]["deltas"] for row in rows], logits.device)
            labels = _labels(clustering, deltas.shape[1] - 1, logits.shape[1], logits.device)
            logits[rows] += deltas[:, labels].to(logits.dtype)
        return logits


# SGLang makes a new instance for every batch, so what is worth keeping lives with the module.
@lru_cache(maxsize=8)
def _labels(clustering: str, clusters: int, width: int, device: torch.device) -> torch.Tensor:
    steering = check({"clustering": clustering, "deltas": [0.0] * clusters}, Path(os.environ[LABELS_VARIABLE]))
    return padded_labels(steering.labels, clusters, width, device)
