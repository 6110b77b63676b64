"""How a request asks for steering: the class of the processor and its parameters, both checked.  Needs numpy only.

A request names the class in `custom_logit_processor` and brings `custom_params = {"clustering": "<hash>", "deltas":
[float, ...]}`.  The label of a token is its cluster; the delta of its cluster is added to its logit.  In the place of
deltas of its own, it may choose those of a front by a dial or by a number of tokens, `{"front": "<hash>", "dial": 0.5}`
or `{"front": "<hash>", "target_tokens": 60}`; see `front`.

SGLang expects the class as `{"callable": "<hex>"}`, the hex of its pickle.  A class of an importable module pickles to
its two names, so a reader can compare names and never has to un-pickle.

Parameters that pass `check_params` cannot raise inside a server's sampler, where an exception would end the server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .deltas import check_deltas
from .front import choose_deltas, load_front

MODULE = "whetstone_steering.processor"  # the module's name inside the server, see pyproject.toml in this folder
CLASS = "ClusterBias"
LABELS_VARIABLE = "WHETSTONE_LABELS"  # the folder of labels, in the environment of a server's processes
HASH = re.compile(r"[0-9a-f]{16,64}")
DELTAS_KEYS = ("clustering", "deltas")
FRONT_KEYS = ("front", "dial", "target_tokens")
MOST_LABEL_BYTES = 16 * 2**20  # labels of eight million tokens

# Protocol 4, the GLOBAL opcode with module and class each on a line, STOP.
_PICKLED = re.compile(rb"\x80\x04c([\w.]+)\n(\w+)\n\.")


@dataclass(frozen=True, eq=False)
class Steering:
    """Checked parameters: `labels` [V] uint8 or uint16, the cluster of each token; `deltas` [K] float32."""

    clustering: str
    labels: npt.NDArray[np.unsignedinteger[Any]]
    deltas: npt.NDArray[np.float32]


def reference_string() -> str:
    """The value of `custom_logit_processor` that selects `ClusterBias`, in SGLang and in the embedded server."""
    pickled = b"\x80\x04c" + f"{MODULE}\n{CLASS}\n".encode() + b"."
    return json.dumps({"callable": pickled.hex()})


def parse_reference(string: str) -> tuple[str, str]:
    """The module and the class that such a string names.  Nothing is imported, nothing is un-pickled.

    Raises: ValueError when the string is not a class by reference.
    """
    try:
        pickled = bytes.fromhex(json.loads(string)["callable"])
    except (ValueError, TypeError, KeyError):
        pickled = b""
    match = _PICKLED.fullmatch(pickled)
    if match is None:
        raise ValueError("custom_logit_processor is not a class by reference")
    return match[1].decode("ascii"), match[2].decode("ascii")


def is_cluster_bias(string: object) -> bool:
    """Whether a request's `custom_logit_processor` names `ClusterBias`, in whatever spelling of JSON."""
    return isinstance(string, str) and _names_cluster_bias(string)


@lru_cache(maxsize=64)
def _names_cluster_bias(string: str) -> bool:
    try:
        return parse_reference(string) == (MODULE, CLASS)
    except ValueError:
        return False


def check_params(custom_params: object, labels_folder: Path) -> Steering:
    """The parameters, checked against the labels of their clustering, `<labels_folder>/<hash>.npy`.

    The number of clusters K is the highest label + 1: clusters are numbered from 0 and the last one is never empty.
    Labels are read once for each hash and process, because a file named by its content hash does not change.  The
    deltas of a front, `<labels_folder>/<hash>.json`, are interpolated here, once for each request.

    Raises: ValueError with one sentence that says what is wrong.
    """
    if not isinstance(custom_params, Mapping):
        raise ValueError(f"custom_params must be an object with clustering and deltas, not {custom_params!r:.80}")
    has_front = "front" in custom_params
    if unknown := set(custom_params) - set(FRONT_KEYS if has_front else DELTAS_KEYS):
        raise ValueError(f"custom_params has unknown keys: {', '.join(sorted(map(str, unknown)))[:200]}")
    if has_front:
        front = load_front(labels_folder, _check_hash("front", custom_params["front"]))
        clustering = _check_hash("clustering", front.clustering)
        deltas = choose_deltas(front, custom_params.get("dial"), custom_params.get("target_tokens"))
        labels, clusters = _load_labels(labels_folder, clustering)
    else:
        clustering = _check_hash("clustering", custom_params.get("clustering"))
        labels, clusters = _load_labels(labels_folder, clustering)
        deltas = check_deltas(custom_params.get("deltas"))
    if len(deltas) != clusters:
        raise ValueError(f"deltas has {len(deltas)} numbers, but the clustering has {clusters} clusters")
    return Steering(clustering, labels, deltas)


def _check_hash(name: str, value: object) -> str:
    if not isinstance(value, str) or not HASH.fullmatch(value):
        raise ValueError(f"{name} must be 16 to 64 lower-case hexadecimal digits, not {value!r:.80}")
    return value


@lru_cache(maxsize=16)
def _load_labels(folder: Path, clustering: str) -> tuple[npt.NDArray[np.unsignedinteger[Any]], int]:
    """The labels and the number of their clusters."""
    path = folder / f"{clustering}.npy"
    try:
        if (size := path.stat().st_size) > MOST_LABEL_BYTES:
            raise ValueError(f"{path} has {size:,} bytes, and labels have at most {MOST_LABEL_BYTES:,}")
        # Loads no objects, and allocates nothing for a header that promises more than the file has.
        labels: npt.NDArray[Any] = np.array(np.lib.format.open_memmap(path, mode="r"))
    except FileNotFoundError:
        raise ValueError(f"no labels for clustering {clustering} in {folder}") from None
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} holds no labels: {error}") from None
    if labels.ndim != 1 or not labels.size or labels.dtype not in (np.uint8, np.uint16):
        raise ValueError(f"{path} must hold one uint8 or uint16 a token, not {labels.dtype} {list(labels.shape)}")
    labels.flags.writeable = False
    return labels, int(labels.max()) + 1
