"""A length dial inside the server: a front of vectors, from the longest answers to the shortest.  Needs numpy only.

A front is a file `<hash>.json` in the folder of labels:

    {"clustering": "<hash>", "default": [deltas], "knots": [{"dial": 0.0, "mean_tokens": 90.5, "deltas": [...]}, ...]}

Its knots are ordered by `dial`, from 0 to 1, and `mean_tokens` falls from knot to knot.  Between two knots each delta
is interpolated linearly, and so are the mean tokens.  A request brings `dial`, or `target_tokens`: the dial whose
interpolated mean tokens are equal to it.  Mean tokens are those of the questions on which the front was measured.

The deltas of a request are interpolated once, on the CPU, when the request arrives.  The batch then holds them as it
holds deltas that a request has brought itself, and the kernel is the same: a dial costs nothing in a step.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .deltas import check_deltas, is_number

MOST_FRONT_BYTES = 16 * 2**20
_NUMBERS = ("dial", "mean_tokens")  # of each knot


@dataclass(frozen=True, eq=False)
class Front:
    """A checked front of N knots for K clusters: `dials` [N] ascending, `tokens` [N] falling, `deltas` [N, K].

    `default` [K] float32 is for a request that chooses no dial.
    """

    clustering: str
    default: npt.NDArray[np.float32]
    dials: npt.NDArray[np.float64]
    tokens: npt.NDArray[np.float64]
    deltas: npt.NDArray[np.float64]

    def at_dial(self, dial: float) -> npt.NDArray[np.float32]:
        """The deltas at a dial from 0 to 1, [K] float32."""
        columns = [np.interp(dial, self.dials, column) for column in self.deltas.T]
        return np.asarray(columns, dtype=np.float32)

    def dial_of(self, target_tokens: float) -> float:
        """The dial with these mean tokens; 0 for more than the longest knot has, 1 for fewer than the shortest."""
        return float(np.interp(-target_tokens, -self.tokens, self.dials))


def choose_deltas(front: Front, dial: Any, target_tokens: Any) -> npt.NDArray[np.float32]:
    """The deltas of a request, [K] float32; None for a parameter that it does not have.

    Raises: ValueError when both are given, when `dial` is no number from 0 to 1, or `target_tokens` none above 0.
    """
    if dial is not None and target_tokens is not None:
        raise ValueError("give either dial or target_tokens")
    if dial is not None:
        if not is_number(dial) or not 0 <= dial <= 1:
            raise ValueError(f"dial must be a number from 0 to 1, not {dial!r:.80}")
        return front.at_dial(dial)
    if target_tokens is not None:
        if not is_number(target_tokens) or not 0 < target_tokens < math.inf:
            raise ValueError(f"target_tokens must be a number above 0, not {target_tokens!r:.80}")
        return front.at_dial(front.dial_of(min(target_tokens, float(front.tokens[0]))))  # a huge int is no float
    return front.default


@lru_cache(maxsize=16)
def load_front(folder: Path, name: str) -> Front:
    """The front `<folder>/<name>.json`, read once a process: a file named by its content hash does not change.

    Raises: ValueError with one sentence that says what is wrong.
    """
    path = folder / f"{name}.json"
    try:
        if (size := path.stat().st_size) > MOST_FRONT_BYTES:
            raise ValueError(f"it has {size:,} bytes, and {MOST_FRONT_BYTES:,} are allowed")
        return _checked(json.loads(path.read_bytes()))
    except FileNotFoundError:
        raise ValueError(f"no front {name} in {folder}") from None
    except (KeyError, TypeError, RecursionError, OSError) as error:
        raise ValueError(f"{path} is no front: {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _checked(document: Any) -> Front:
    """Raises: ValueError, KeyError or TypeError."""
    knots = document["knots"]
    if not isinstance(document["clustering"], str) or not isinstance(knots, list) or len(knots) < 2:
        raise ValueError("a front needs a clustering and at least two knots")
    default = check_deltas(document["default"])
    if {len(check_deltas(knot["deltas"])) for knot in knots} != {len(default)}:
        raise ValueError("all deltas need one number for each cluster")
    if not all(is_number(knot[name]) and math.isfinite(knot[name]) for knot in knots for name in _NUMBERS):
        raise ValueError("dial and mean_tokens of each knot must be numbers")
    dials, tokens = ([float(knot[name]) for knot in knots] for name in _NUMBERS)
    if (dials[0], dials[-1]) != (0.0, 1.0) or not _rises(dials):
        raise ValueError("the dials of the knots must rise from 0 to 1")
    if not _rises([-mean for mean in tokens]):
        raise ValueError("mean_tokens must fall from knot to knot")
    deltas = np.asarray([knot["deltas"] for knot in knots], dtype=np.float64)
    return Front(document["clustering"], default, np.asarray(dials), np.asarray(tokens), deltas)


def _rises(values: list[float]) -> bool:
    return all(first < second for first, second in pairwise(values))
