"""How a request asks for steering: the class of the processor and its parameters, both checked.  Needs numpy only.

A request names a class in `custom_logit_processor` and brings `custom_params = {"clustering": "<hash>", "deltas":
[float, ...], "strength": 1, "end": "any"}`.  The delta of a token's cluster, times the strength, is added to its logit.
With "end": "sentence" the delta of cluster 0 is added only directly after a token that ends a sentence.

SGLang expects the class as `{"callable": "<hex>"}`, the hex of its pickle.  A class of an importable module pickles to
its two names.  They are compared, and nothing is un-pickled.

Parameters that pass `check_params` cannot raise inside a server's sampler, where an exception would end the server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

MODULE = "whetstone_steering.processor"
CLASS = "ClusterBias"
LABELS_VARIABLE = "WHETSTONE_LABELS"  # the folder of labels, in the environment of a server's processes
HASH = re.compile(r"[0-9a-f]{16,64}")
KEYS = {"clustering", "deltas", "strength", "end"}
MAX_DELTA = 1000.0  # in logits: more than any use needs, and safe in float32
MOST_LABEL_BYTES = 16 * 2**20  # labels of eight million tokens

# Protocol 4, the GLOBAL opcode with module and class each on a line, STOP.
_PICKLED = re.compile(rb"\x80\x04c([\w.]+)\n(\w+)\n\.")

OPEN, DIGIT = 1, 2
State = TypeVar("State", int, "torch.Tensor")


def next_state(state: State, token_class: State) -> State:
    """An answer's state after one more token, as numbers or as tensors of int8; before the first it is 0.

    The classes of tokens are those of `tasks.gpu.clustering.vocabulary`; 4 is a "." that counts unless a digit came
    before.  A state has OPEN after a token that ends a sentence, and DIGIT after one whose last character is a digit.
    """
    return token_class & (OPEN | DIGIT) | (token_class >> 2) & ~(state >> 1) & OPEN


@dataclass(frozen=True, eq=False)
class Steering:
    """Checked parameters."""

    clustering: str
    labels: npt.NDArray[np.unsignedinteger[Any]]  # [V] uint8 or uint16, the cluster of each token
    deltas: npt.NDArray[np.float32]  # [K], scaled
    classes: npt.NDArray[np.uint8] | None = None  # [V]: which tokens end a sentence; None: cluster 0 acts everywhere

    def state(self, answer: Sequence[int]) -> int:
        """The state after the tokens of an answer; always OPEN where cluster 0 is steered everywhere."""
        if self.classes is None:
            return OPEN
        state = 0
        for token in answer[-2:]:  # a state depends on no more
            state = next_state(state, int(self.classes[token]) if token < len(self.classes) else 0)
        return state


@lru_cache(maxsize=64)
def parse_reference(string: str) -> tuple[str, str]:
    """The module and the class that a `custom_logit_processor` names.  Nothing is imported, nothing is un-pickled."""
    try:
        pickled = bytes.fromhex(json.loads(string)["callable"])
    except (ValueError, TypeError, KeyError):
        pickled = b""
    match = _PICKLED.fullmatch(pickled)
    if match is None:
        raise ValueError("custom_logit_processor is not a class by reference")
    return match[1].decode("ascii"), match[2].decode("ascii")


def is_cluster_bias(string: object) -> bool:
    """Whether a request's `custom_logit_processor` names `ClusterBias`."""
    try:
        return isinstance(string, str) and parse_reference(string) == (MODULE, CLASS)
    except ValueError:
        return False


def check_params(custom_params: object, labels_folder: Path) -> Steering:
    """The parameters, checked against the labels of their clustering, `<labels_folder>/<hash>.npy`.

    The number of clusters is the highest label + 1.  A ValueError says in one sentence what is wrong.
    """
    if not isinstance(custom_params, Mapping):
        raise ValueError(f"custom_params must be an object with clustering and deltas, not {custom_params!r:.80}")
    if unknown := set(custom_params) - KEYS:
        raise ValueError(f"custom_params has unknown keys: {', '.join(sorted(map(str, unknown)))[:200]}")
    clustering = custom_params.get("clustering")
    if not isinstance(clustering, str) or not HASH.fullmatch(clustering):
        raise ValueError(f"clustering must be 16 to 64 lower-case hexadecimal digits, not {clustering!r:.80}")
    labels = _load(labels_folder / f"{clustering}.npy", "labels")
    clusters = int(labels.max()) + 1
    strength = custom_params.get("strength", 1)
    if not _is_number(strength) or not 0 <= strength <= 1:
        raise ValueError(f"strength must be a number from 0 to 1, not {strength!r:.80}")
    deltas = _check_deltas(custom_params.get("deltas")) * np.float32(strength)
    if len(deltas) != clusters:
        raise ValueError(f"deltas has {len(deltas)} numbers, but the clustering has {clusters} clusters")
    if (end := custom_params.get("end", "any")) not in ("any", "sentence"):
        raise ValueError(f'end must be "sentence" or "any", not {end!r:.80}')
    if end == "any":
        return Steering(clustering, labels, deltas)
    classes = _load(labels_folder / f"{clustering}.ends.npy", "sentence ends")
    if classes.dtype != np.uint8 or len(classes) != len(labels):
        raise ValueError(f"clustering {clustering} has {len(labels)} labels and {len(classes)} {classes.dtype} ends")
    return Steering(clustering, labels, deltas, classes)


def _check_deltas(values: object) -> npt.NDArray[np.float32]:
    """One finite number from -MAX_DELTA to MAX_DELTA for each cluster, [K] float32."""
    if not isinstance(values, list):
        raise ValueError(f"deltas must be a list of numbers, not {values!r:.80}")
    for cluster, value in enumerate(values):
        # NaN and infinity are in no such range.
        if not _is_number(value) or not -MAX_DELTA <= value <= MAX_DELTA:
            limits = f"a number from {-MAX_DELTA:g} to {MAX_DELTA:g}"
            raise ValueError(f"the delta of cluster {cluster} must be {limits}, not {value!r:.80}")
    return np.asarray(values, dtype=np.float32)


def _is_number(value: Any) -> bool:
    """Whether a JSON value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


@lru_cache(maxsize=32)  # a file named by its content hash does not change
def _load(path: Path, what: str) -> npt.NDArray[np.unsignedinteger[Any]]:
    """One number for each token [V] uint8 or uint16."""
    try:
        if (size := path.stat().st_size) > MOST_LABEL_BYTES:
            raise ValueError(f"{path} has {size:,} bytes, and {what} have at most {MOST_LABEL_BYTES:,}")
        # Loads no objects, and allocates nothing for a header that promises more than the file has.
        found: npt.NDArray[Any] = np.array(np.lib.format.open_memmap(path, mode="r"))
    except FileNotFoundError:
        raise ValueError(f"no {what} for clustering {path.name.partition('.')[0]} in {path.parent}") from None
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} holds no {what}: {error}") from None
    if found.ndim != 1 or not found.size or found.dtype not in (np.uint8, np.uint16):
        raise ValueError(f"{path} must hold one uint8 or uint16 a token, not {found.dtype} {list(found.shape)}")
    found.flags.writeable = False
    return found
