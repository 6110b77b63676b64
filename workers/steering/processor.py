"""The processor that SGLang imports by reference, where the plugin is not loaded.  Needs torch, numpy and SGLang only.

Its parameters are not checked by SGLang, and an error ends the server.  No error is caught here all the same: text that
was left unsteered without notice would look like the answer of a weak individual.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor

from .request import LABELS_VARIABLE, check_params

__all__ = ["ClusterBias"]


# SGLang is not installed where types are checked, so its class is unknown there.
class ClusterBias(CustomLogitProcessor):  # type: ignore[misc,unused-ignore]
    """Adds to each row of logits [rows, V] the delta of each token's cluster. Parameters: `request.check_params`."""

    def __call__(self, logits: torch.Tensor, custom_param_list: list[dict[str, Any]]) -> torch.Tensor:
        by_clustering: dict[str, list[int]] = {}
        for row, params in enumerate(custom_param_list):
            by_clustering.setdefault(params["clustering"], []).append(row)
        for clustering, rows in by_clustering.items():
            values = torch.tensor([custom_param_list[row]["deltas"] for row in rows], dtype=torch.float32)
            strengths = torch.tensor([custom_param_list[row].get("strength", 1.0) for row in rows])
            values *= strengths.clamp(0, 1)[:, None]
            # One more column, zero, for the columns of the logits beyond the tokenizer.
            deltas = torch.nn.functional.pad(values, (0, 1)).to(logits.device, non_blocking=True)
            labels = _labels(clustering, values.shape[1], logits.shape[1], logits.device)
            logits[rows] += deltas[:, labels].to(logits.dtype)
        return logits


# SGLang makes a new instance for every batch, so the module keeps what is expensive.
@lru_cache(maxsize=8)
def _labels(clustering: str, clusters: int, width: int, device: torch.device) -> torch.Tensor:
    """Labels as an int64 index [width]; `clusters`, one past the last, where the logits are wider than the labels."""
    steering = check_params({"clustering": clustering, "deltas": [0.0] * clusters}, Path(os.environ[LABELS_VARIABLE]))
    if len(steering.labels) > width:
        raise ValueError(f"{len(steering.labels)} labels do not fit a vocabulary of {width}")
    index = torch.full((width,), clusters, dtype=torch.int64)
    index[: len(steering.labels)] = torch.from_numpy(steering.labels.astype("int64"))
    return index.to(device)
