"""Tickets, and candidates: what the model answers to one in each cell of a grid.

An answer is three lines.  Verdicts are whole words of a fixed set, in English and Chinese: 不通过 (fail) contains 通过
(pass).

    Verdict: pass
    Reason: every cable is tied
    Confidence: 0.9
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["pass", "fail"]

WORDS: dict[str, Verdict] = {"通过": "pass", "pass": "pass", "不通过": "fail", "未通过": "fail", "fail": "fail"}
LABELS = ("Verdict", "Reason", "Confidence")
REASON_CHARACTERS, SHORTEST_REASON = 160, 8  # that a server which enforces the form allows, and at least allows
LARGEST_SEED = 2**31 - 2**16  # so that the seeds of 65,536 samples of a cell fit in 31 bits

_IMAGE = re.compile(r"image_([0-9]{1,9})")
_FINAL = "。.!！"
_COLON = re.compile("[:：]")
_NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*(%?)")
# What a reason may begin with, and what it may hold, where a server enforces the form: printable ASCII, Chinese
# characters and punctuation.  Nothing of it ends a line, and a reason of one character is not empty.
_FIRST = "A-Za-z0-9\u4e00-\u9fff"
_REST = " -~‘’“”…—\u3001-\u3017\u4e00-\u9fff\uff01-\uff5e"


@dataclass(frozen=True)
class Ticket:
    """A group of images, and the label that people gave it.  `per_image` has the summaries, by the images' numbers."""

    group_id: str
    mission: str
    label: Verdict
    per_image: Mapping[str, str]
    label_source: str | None = None
    label_timestamp: str | None = None

    def __post_init__(self) -> None:
        ordered = dict(sorted(self.per_image.items(), key=lambda item: (image_number(item[0]), item[0])))
        object.__setattr__(self, "per_image", ordered)


def image_number(key: str) -> int:
    """10 of `image_10`."""
    found = _IMAGE.fullmatch(key)
    if found is None:
        raise ValueError(f"{key!r} is not image_ and a number")
    return int(found[1])


@dataclass(frozen=True)
class DecodeCell:
    """One way of sampling.  Sample j uses the cell's seed + j; without `seed` the cell has one for each ticket."""

    temperature: float
    top_p: float
    max_new_tokens: int
    seed: int | None = None
    stop: tuple[str, ...] = ()

    @property
    def is_greedy(self) -> bool:
        """Its candidates are all alike, so that it gives one."""
        return self.temperature == 0


def first_seed(cell: DecodeCell, run_seed: int, epoch: int | None, group_id: str, cell_index: int) -> int:
    """The seed of sample 0 of a ticket in an epoch; without one that of every preview and test, under all guidance."""
    if epoch is None:
        parts = ("preview", run_seed, cell.seed, group_id, cell_index)
    elif cell.seed is not None:
        return cell.seed
    else:
        parts = ("rollout", run_seed, epoch, group_id, cell_index)
    return int.from_bytes(hashlib.sha256(json.dumps(parts).encode()).digest()[:8], "big") % LARGEST_SEED


@dataclass(frozen=True)
class GuideCandidate:
    """One answer.  `index` counts over all cells of the grid, `cell` is its place there; `seed` is the sample's own.

    A malformed answer has no verdict, reason and confidence, and a warning that says what is wrong.
    """

    index: int
    cell: int
    seed: int
    text: str
    tokens: int
    finish: str
    verdict: Verdict | None = None
    reason: str | None = None
    confidence: float | None = None
    warnings: tuple[str, ...] = ()

    @property
    def format_ok(self) -> bool:
        return self.verdict is not None


def read_candidate(index: int, cell: int, seed: int, text: str, tokens: int, finish: str) -> GuideCandidate:
    """The candidate of an answer.  One that was cut after three whole lines is valid, and has a warning."""
    lines: tuple[Verdict | None, str | None, float | None] = (None, None, None)
    warnings = ["cut: length"] if finish == "length" else []
    try:
        lines = parse_three_lines(text)
    except ValueError as error:
        warnings.insert(0, f"malformed: {error}")
    return GuideCandidate(index, cell, seed, text, tokens, finish, *lines, tuple(warnings))


def parse_three_lines(text: str) -> tuple[Verdict, str, float]:
    """Verdict, reason, and confidence from 0 to 1 of a reply; a ValueError says what is wrong first.

    Blank lines, and space around lines, labels and values, make no difference.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) != len(LABELS):
        raise ValueError(f"{len(lines)} lines, not {len(LABELS)}")
    values = []
    for label, line in zip(LABELS, lines, strict=False):  # as many, see above
        name, *rest = _COLON.split(line, maxsplit=1)
        if not rest or name.rstrip().lower() != label.lower():
            raise ValueError(f"no line {label}: at its place")
        values.append(rest[0].strip())
    verdict, confidence = parse_verdict(values[0]), parse_confidence(values[2])
    if verdict is None:
        raise ValueError("the verdict is neither pass nor fail")
    if not values[1]:
        raise ValueError("the reason is empty")
    if confidence is None:
        raise ValueError("the confidence is no number from 0 to 1 or 0 to 100 %")
    return verdict, values[1], confidence


def parse_verdict(text: str) -> Verdict | None:
    """The side that a verdict takes.  Width, case, spaces and one final `。`, `.`, `!` or `！` make no difference."""
    plain = "".join(unicodedata.normalize("NFKC", text).lower().split())
    return WORDS.get(plain[:-1] if plain[-1:] in _FINAL else plain)


def parse_confidence(text: str) -> float | None:
    """A number from 0 to 1, a percentage from 0 to 100, or a whole number from 2 to 100, read as a percentage.

    None for all else.  A number has ASCII digits and at most one point, without sign and exponent.
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        return None
    number = float(found[1])
    if found[2] or (number >= 2 and found[1].isdigit()):
        number /= 100
    return number if number <= 1 else None


def three_lines_regex(max_new_tokens: int) -> str:
    """A regular expression for a server's grammar: all that it matches, `parse_three_lines` takes.

    With room for `SHORTEST_REASON`, no answer is cut at `max_new_tokens`: a token is one byte at least, a printable
    ASCII character is one, and others that a reason may have are three.
    """
    form = max(len(f"Verdict: {word}\nReason: \nConfidence: 1.00".encode()) for word in WORDS) + 1  # the turn's end
    left = min(REASON_CHARACTERS, max(SHORTEST_REASON, max_new_tokens - form))
    plain = f"[A-Za-z0-9][ -~]{{0,{left - 1}}}"
    other = f"[{_FIRST}][{_REST}]{{0,{left // 3 - 1}}}"
    words = "|".join(WORDS)
    return rf"Verdict: ({words})\nReason: ({plain}|{other})\nConfidence: (0\.[0-9][0-9]|1\.00)"
