"""Whether an answer is whole: it ends where its writer would end it, and is not cut.

The model's own end of turn is the evidence.  Where deltas or a raised end may have cut an answer, its last characters
decide, or else the model without deltas is asked whether it would end there too (tasks/gpu/answer.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import regex

LEAST_LOOP = 16
"""Tokens that the repetitions of a loop have together at least: a row of digits or dots is none."""

# Code and formulas that are closed; a dollar opens a formula as in Pandoc, so that sums of money are none.
_CLOSED = regex.compile(
    r"""
    (`{3,}|~{3,}) .*? \1
    | (?<!`) (`{1,2}) [^`\n]+ \2 (?!`)
    | \$\$ .+? \$\$
    | \\\( .+? \\\)
    | \\\[ .+? \\\]
    | (?<![\\\w$]) \$ (?=\S) [^$\n]*? (?<=[^\s\\]) \$ (?![\w$])
    """,
    regex.VERBOSE | regex.DOTALL,
)
_STANDS_FOR_CLOSED = "formula"
# Of what is left: code and formulas that are open.
_OPEN = regex.compile(r"`|^[ \t]*~~~|\$\$|\\[(\[]|(?<![\\\w$])\$(?![\s\d.,;:!?)]|[-(]\d)", regex.MULTILINE)
_BRACKET = regex.compile(r"(?V1)([\p{Ps}--[‚„]])|\p{Pe}")  # the low quotation marks close by no bracket
_CLOSING_MARKS = regex.compile(r"""[\p{Pe}\p{Pf}\p{Pi}\p{Cf}\s"'*_]+\Z""")
_TERMINAL = regex.compile(r"\p{Sentence_Terminal}\Z")
# Full stops that end no sentence, or not surely.
_NO_END = regex.compile(
    r"""
    (?: \d                                          # a number, a list label
      | (?<![\p{L}\p{N}]) \p{L}                     # an initial, a list label, the last letter of U.S. and e.g.
      | ^ \W* [ivxIVX]+                             # a list label
      | (?<= [\p{L}\p{N}] [ \t]+ ) No               # of a note or a table; alone it is an answer
      | (?<! \p{L} ) (?i: approx | al | aug | ca | cf | co | corp | dec | dept | dr | eq | est | etc | feb | fig | inc
          | jan | jr | llc | ltd | mr | mrs | ms | nos | nov | oct | pp | prof | sec | sept? | sr | st | vol | vs )
    ) \. \Z
    | [.．。｡] \s* [.．。｡] \Z                       # an ellipsis
    """,
    regex.VERBOSE | regex.MULTILINE,
)


def ends_sentence(text: str) -> bool:
    """Whether the text ends with a sentence: False where it does not, and where its characters do not tell."""
    body = _CLOSED.sub(_STANDS_FOR_CLOSED, text)
    end = _CLOSING_MARKS.sub("", body)
    if not _TERMINAL.search(end) or _NO_END.search(end) or _OPEN.search(body):
        return False
    depth = 0
    for bracket in _BRACKET.finditer(body):
        depth = depth + 1 if bracket[1] else max(0, depth - 1)  # one that was never opened is a label: a)
    return depth == 0


def is_whole(text: str, finish: Literal["stop", "length"], steered: bool) -> bool | None:
    """Whether an answer is whole; None where only the model's own next token can tell.

    `finish` is "stop" when an end token ended it.  `steered`: deltas may have raised that token.
    """
    if finish == "length" or not text.strip():
        return False
    return True if not steered or ends_sentence(text) else None


def is_loop(ids: Sequence[int]) -> bool:
    """Whether these tokens end in one n-gram again and again: at least three times, and `LEAST_LOOP` tokens in all.

    Of an answer at the cap it means that it would not have ended.
    """
    for period in range(1, len(ids) // 3 + 1):
        needed = max(3 * period, LEAST_LOOP)
        if needed <= len(ids) and all(ids[-i] == ids[-i - period] for i in range(1, needed - period + 1)):
            return True
    return False
