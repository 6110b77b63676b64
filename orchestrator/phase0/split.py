"""Train, val and test (phase0_collect.md section 4.4): a function of the ids, the seed and the ratios alone."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.phase0.settings import SplitRatios
from tasks.records import Example


@dataclass(frozen=True)
class Split:
    """The three parts, each in the order of the shuffle."""

    train: tuple[Example, ...]
    val: tuple[Example, ...]
    test: tuple[Example, ...]


def split(examples: Sequence[Example], ratios: SplitRatios, seed: int) -> Split:
    """Sort by id, shuffle with `random.Random(seed)`, cut at the floors of the ratios; the rest is the test part."""
    shuffled = sorted(examples, key=lambda example: example.id)
    random.Random(seed).shuffle(shuffled)
    first = math.floor(len(shuffled) * ratios.train)
    second = first + math.floor(len(shuffled) * ratios.val)
    return Split(tuple(shuffled[:first]), tuple(shuffled[first:second]), tuple(shuffled[second:]))
