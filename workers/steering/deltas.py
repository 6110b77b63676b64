"""Deltas from outside: a list of JSON numbers becomes float32, or is refused in a sentence.  Needs numpy only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_DELTA = 1000.0  # in logits: more than any use needs, and safe in float32


def check_deltas(values: object) -> npt.NDArray[np.float32]:
    """One finite number from -MAX_DELTA to MAX_DELTA for each cluster, [K] float32.

    Raises: ValueError with one sentence that says what is wrong.
    """
    if not isinstance(values, list):
        raise ValueError(f"deltas must be a list of numbers, not {values!r:.80}")
    for cluster, value in enumerate(values):
        if not is_number(value):
            raise ValueError(f"the delta of cluster {cluster} is not a number: {value!r:.80}")
        # The comparison comes first: isfinite would overflow on a huge int.
        if not -MAX_DELTA <= value <= MAX_DELTA or not math.isfinite(value):
            limits = f"from {-MAX_DELTA:g} to {MAX_DELTA:g}"
            raise ValueError(f"the delta of cluster {cluster} must be {limits}, not {value!r:.80}")
    return np.asarray(values, dtype=np.float32)


def check_strength(value: Any) -> np.float32:
    """The factor of all deltas, from 0 to 1.  Raises: ValueError with one sentence that says what is wrong."""
    if not is_number(value) or not 0 <= value <= 1:
        raise ValueError(f"strength must be a number from 0 to 1, not {value!r:.80}")
    return np.float32(value)


def is_number(value: Any) -> bool:
    """Whether a JSON value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)
