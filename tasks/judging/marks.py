r"""The form of golds and answers: several accepted answers, "#### 42", "\boxed{42}", "<think>...</think>"."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_LINE_MARK = re.compile(r"####[ \t]*(?P<line>[^\n]*)")
_BOX = re.compile(r"\\f?boxed\s*\{")
_STYLE = re.compile(
    r"\\(?:text|mathbf|mathrm|mathsf|mathit|textbf|textrm|textnormal|boldsymbol|bm|mbox|left|right|displaystyle)\b"
)
_LIMIT = re.compile(r"[<>≤≥≠]|\\(?:leq?|geq?|neq?)\b")
_RELATION = re.compile(r"[=≈≅]|\\approx\b|\\equiv\b")


@dataclass(frozen=True)
class FinalMark:
    """What an answer marks as its result: its text without TeX's styles, as long as the original, and where it starts.

    `is_line` is true of the rest of a line, which may have more behind it.
    """

    text: str
    start: int
    is_line: bool


def accepted_answers(gold: str) -> list[str]:
    """The answers of which each is right: those of a JSON list of texts, else the gold itself."""
    if gold.lstrip().startswith("["):
        try:
            listed = json.loads(gold)
        except ValueError:
            return [gold]
        if isinstance(listed, list) and listed and all(isinstance(text, str) and text.strip() for text in listed):
            return listed
    return [gold]


def without_thinking(answer: str) -> str:
    """The answer without the blocks in which a model thinks; one that never ends has no answer behind it."""
    return _THOUGHT.sub("", _THINKING.sub("", answer)) if "think" in answer.lower() else answer


def final_mark(text: str) -> FinalMark | None:
    r"""The text behind the last "####", else that in the last "\boxed{}" (behind its last equals sign), or None."""
    lines = list(_LINE_MARK.finditer(text))
    if lines:
        return FinalMark(lines[-1]["line"], lines[-1].start("line"), is_line=True)
    boxes = list(_BOX.finditer(text))
    if not boxes:
        return None
    start = boxes[-1].end()
    content = _STYLE.sub(lambda style: " " * len(style[0]), _balanced(text, start))
    if _LIMIT.search(content):  # "x > 3" is no result
        content = " " * len(content)
    behind = max((relation.end() for relation in _RELATION.finditer(content)), default=0)
    return FinalMark(content[behind:], start + behind, is_line=False)


def _balanced(text: str, start: int) -> str:
    """The text from `start` to the brace that closes what was opened before it, or to the end of its line."""
    depth = 1
    for end in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return text[start:end]
    return text[start:].split("\n", 1)[0]
