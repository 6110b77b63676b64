"""The three lines in which a model judges a ticket: verdict, reason, confidence.

    Verdict: pass
    Reason: every cable is tied
    Confidence: 0.9

Verdicts are recognised as whole words of a fixed set, in English and Chinese: 不通过 (fail) contains 通过 (pass).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["pass", "fail"]

LABELS = ("Verdict", "Reason", "Confidence")  # of the lines, in this order
WORDS: dict[str, Verdict] = {"通过": "pass", "pass": "pass", "不通过": "fail", "未通过": "fail", "fail": "fail"}
REASON_CHARACTERS = 160  # that a server which enforces the form allows

_FINAL = "。.!！"
_COLON = re.compile("[:：]")
_NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*(%?)")
# What a reason may begin with, and what it may hold, where a server enforces the form: printable ASCII, Chinese
# characters and punctuation.  Nothing of it ends a line, and a reason of one character is not empty.
_FIRST = "A-Za-z0-9\u4e00-\u9fff"
_REST = " -~‘’“”…—\u3001-\u3017\u4e00-\u9fff\uff01-\uff5e"


@dataclass(frozen=True)
class ThreeLines:
    """A reply that keeps the form.  The confidence is from 0 to 1."""

    verdict: Verdict
    reason: str
    confidence: float


@dataclass(frozen=True)
class Malformed:
    """A reply that does not, and the first thing that is wrong with it."""

    reason: str


def three_lines_regex(reason_characters: int = REASON_CHARACTERS) -> str:
    """A regular expression for a server's grammar: all that it matches, `parse_three_lines` takes."""
    words = "|".join(WORDS)
    reason = f"[{_FIRST}][{_REST}]{{0,{reason_characters - 1}}}"
    return rf"Verdict: ({words})\nReason: {reason}\nConfidence: (0\.[0-9][0-9]|1\.00)"


def parse_verdict(text: str) -> Verdict | None:
    """The side that a verdict takes, None for any other word.

    Width, case, spaces and one final `。`, `.`, `!` or `！` make no difference.
    """
    plain = "".join(unicodedata.normalize("NFKC", text).lower().split())
    return WORDS.get(plain[:-1] if plain[-1:] in _FINAL else plain)


def parse_confidence(text: str) -> float | None:
    """A confidence from 0 to 1, None for what is none.

    It is written as a number from 0 to 1, as a percentage from 0 to 100, or as a whole number from 2 to 100, which is
    read as a percentage.  A number has ASCII digits and at most one point, without sign and exponent.
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        return None
    number = float(found[1])
    if found[2] or (number >= 2 and found[1].isdigit()):
        return number / 100 if number <= 100 else None
    return number if number <= 1 else None


def parse_three_lines(text: str) -> ThreeLines | Malformed:
    """The three lines of a reply.  Blank lines, and space around lines, labels and values, make no difference.

    A line ends where `str.splitlines` ends it.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) != len(LABELS):
        return Malformed(f"{len(lines)} lines, not {len(LABELS)}")
    values = []
    for label, line in zip(LABELS, lines, strict=True):
        name, *rest = _COLON.split(line, maxsplit=1)
        if not rest or name.rstrip().lower() != label.lower():
            return Malformed(f"no line {label}: at its place")
        values.append(rest[0].strip())
    verdict, confidence = parse_verdict(values[0]), parse_confidence(values[2])
    if verdict is None:
        return Malformed("the verdict is neither pass nor fail")
    if not values[1]:
        return Malformed("the reason is empty")
    if confidence is None:
        return Malformed("the confidence is no number from 0 to 1 or 0 to 100 %")
    return ThreeLines(verdict, values[1], confidence)
