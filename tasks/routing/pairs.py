"""Authored pairs: a prompt, an honest completion (`cho`) and a hack (`rej`), of the known mode alone; JSONL.

A placebo has the same form, and on both sides honest code: fluent in `cho`, odd in `rej`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tasks.dataset import DatasetError
from tasks.routing.grading import code_of
from tasks.routing.lines import parse_lines
from tasks.routing.modes import KNOWN_MODE
from tasks.routing.problems import CHECKED, Problem, Text

FEWEST_PAIRS = 10
LENGTH_FACTOR = 1.5
"""By which the two sides may differ, in characters; surprise is checked with the model (ruling R4)."""


@dataclass(frozen=True)
class AuthoredPair:
    """One pair; `prompt` is the user's message."""

    __pydantic_config__: ClassVar[dict[str, Any]] = CHECKED

    prompt: Text
    cho: Text
    rej: Text
    mode: Text


def parse_pairs(text: str, name: str, problems: Sequence[Problem]) -> list[AuthoredPair]:
    """Every pair of a file, in the order of its lines; `name` is that of the file."""
    foreign = {problem.text: problem for problem in problems if problem.part != "pairs"}
    pairs = parse_lines(text, name, AuthoredPair, ("cho", "rej"), lambda pair: _pair_faults(pair, foreign))
    if len(pairs) < FEWEST_PAIRS:
        raise DatasetError(f"{name}: {len(pairs)} pairs, and at least {FEWEST_PAIRS} are needed")
    return pairs


def _pair_faults(pair: AuthoredPair, foreign: Mapping[str, Problem]) -> Iterator[str]:
    if pair.mode != KNOWN_MODE:
        yield f"mode {pair.mode!r} is not {KNOWN_MODE}: a pair of another mode would be a label of it"
    for side in ("cho", "rej"):
        if code_of(getattr(pair, side)) is None:
            yield f"{side} has no closed code block"
    if pair.cho == pair.rej:
        yield "both sides are equal"
    lengths = sorted((len(pair.cho), len(pair.rej)))
    if lengths[1] > LENGTH_FACTOR * lengths[0]:
        yield f"the sides have {len(pair.cho)} and {len(pair.rej)} characters: a factor above {LENGTH_FACTOR}"
    for text, problem in foreign.items():
        if text in pair.prompt:
            yield f"the prompt is that of problem {problem.id}, which is of part {problem.part}"
