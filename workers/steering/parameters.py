"""The parameters that a request brings to its processor, and their check. Imports numpy and nothing of ours.

A request steers with `custom_params = {"clustering": "<hash>", "deltas": [float, ...]}`: the label of each token says
to which cluster it belongs, and the delta of its cluster is added to its logit.  What passes `check` cannot raise
inside a server's sampler, where an exception would end the server.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

LABELS_VARIABLE = "WHETSTONE_LABELS"  # names the folder of labels inside a server's processes
LIMIT = 1000.0  # of |delta|, in logits: far beyond any use, far within float32
HASH = re.compile(r"[0-9a-f]{16,64}")


@dataclass(frozen=True, eq=False)
class Steering:
    """Checked parameters: `labels` [V] uint8 or uint16, the cluster of each token; `deltas` [K] float32."""

    clustering: str
    labels: npt.NDArray[np.unsignedinteger[Any]]
    deltas: npt.NDArray[np.float32]


def check(custom_params: object, labels_folder: Path) -> Steering:
    """The parameters, checked against the labels of their clustering, `<labels_folder>/<hash>.npy`.

    The number of clusters K is the highest label + 1: clusters are numbered from 0 and the last one is never empty.
    Labels are read once for each hash and process; a file under a content hash does not change.

    Raises: ValueError with one sentence that says what is wrong.
    """
    if not isinstance(custom_params, Mapping):
        raise ValueError(f"custom_params must be an object with clustering and deltas, not {custom_params!r:.80}")
    if unknown := set(custom_params) - {"clustering", "deltas"}:
        raise ValueError(f"custom_params has unknown keys: {', '.join(sorted(map(str, unknown)))[:200]}")
    labels, clusters = _labels(labels_folder, _clustering(custom_params.get("clustering")))
    deltas = _deltas(custom_params.get("deltas"))
    if len(deltas) != clusters:
        raise ValueError(f"deltas has {len(deltas)} numbers, but the clustering has {clusters} clusters")
    return Steering(custom_params["clustering"], labels, deltas)


def _clustering(value: object) -> str:
    if not isinstance(value, str) or not HASH.fullmatch(value):
        raise ValueError(f"clustering must be 16 to 64 lower-case hexadecimal digits, not {value!r:.80}")
    return value


def _deltas(values: object) -> npt.NDArray[np.float32]:
    if not isinstance(values, list):
        raise ValueError(f"deltas must be a list of numbers, not {values!r:.80}")
    for cluster, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"the delta of cluster {cluster} is not a number: {value!r:.80}")
        # A huge int would overflow in isfinite; comparing first answers for it exactly.
        if not -LIMIT <= value <= LIMIT or not math.isfinite(value):
            raise ValueError(f"the delta of cluster {cluster} must be from {-LIMIT:g} to {LIMIT:g}, not {value!r:.80}")
    return np.asarray(values, dtype=np.float32)


@lru_cache(maxsize=16)
def _labels(folder: Path, clustering: str) -> tuple[npt.NDArray[np.unsignedinteger[Any]], int]:
    """The labels and the number of their clusters."""
    path = folder / f"{clustering}.npy"
    try:
        labels: npt.NDArray[Any] = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise ValueError(f"no labels for clustering {clustering} in {folder}") from None
    if labels.ndim != 1 or not labels.size or labels.dtype not in (np.uint8, np.uint16):
        raise ValueError(f"{path} must hold one uint8 or uint16 a token, not {labels.dtype} {list(labels.shape)}")
    labels.flags.writeable = False
    return labels, int(labels.max()) + 1
