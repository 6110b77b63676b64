"""Which number an answer settles on, of all that it mentions.

An answer mentions years, pages, the question's own figures, other years' figures and the steps of a calculation.  It
settles on one: what it concludes with, where it draws a conclusion; or else the result of its last calculation; or
else the first figure that it states.  So an answer gains nothing by mentioning more.
"""

from __future__ import annotations

import re

from tasks.judging.numbers import Number, read_numbers

_SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][*)\"”]))\s+(?=[\W_]*[A-Z$€£\d(])|\n+")
_CONCLUDES = re.compile(
    r"\b(?:therefore|thus|hence|consequently|accordingly|in conclusion|to conclude|in summary|overall"
    r"|(?:final|correct) answer|(?:the )?answer (?:is|to)|final(?: result)?:)\b|^[\W_]*(?:so|answer|result)\b",
    re.IGNORECASE,
)
_ROUNDS = re.compile(r"\bround(?:ed|ing|s)?\b", re.IGNORECASE)
_EQUALS = re.compile(r"[=≈≅]")
_VERB = re.compile(
    r"\b(?:is|was|are|were|equals?|amounts? to|amounted to|totall?ed|comes? to|came to|stood at|reached|stands at"
    r"|would be|will be|be)\b|:",
    re.IGNORECASE,
)
# "X or Y", "X (Y)", "X, i.e. Y", "X ≈ Y": the same amount said twice.
_SAME_AGAIN = re.compile(
    r"(?:\b(?:or|i\.e\.|that is|which is|equivalently|equivalent to|equals?|equal to|about|approximately|roughly"
    r"|rounded to|rounds to|expressed as|when|as|a|percentage|days|times)(?!\w)|[\s=≈≅,*(\[])*",
    re.IGNORECASE,
)
_LONGEST_LINK = 60  # characters between two wordings of one amount
_REFERENCE = re.compile(
    r"\b(?:page|pages|pp?\.|note|notes|item|items|section|exhibit|table|figure|step|part|chapter|line|form|no\.|number|#"
    r"|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec)[a-z]*\.?)\s*$",
    re.IGNORECASE,
)
_COUNTS_TIME = re.compile(
    r"\s*(?:-?\s*(?:decimal|digit|significant|months?|weeks?|quarters?|years?|fiscal)\b"
    r"|(?:st|nd|rd|th)\b|(?:january|february|march|april|may|june|july|august|september|october|november|december)\b)",
    re.IGNORECASE,
)


def settled_numbers(question: str, answer: str) -> list[Number]:
    """The number that the answer settles on, with its other wordings ("0.0142 or 1.42%"); empty where there is none.

    The spans are those of the whole answer.
    """
    asked = {_identity(number) for number in read_numbers(question)}
    numbers = [n for n in read_numbers(answer) if not is_aside(answer, n) and _identity(n) not in asked]
    sentences = [s for s in _sentences(answer) if any(_inside(n, s) for n in numbers)]
    if not sentences:
        # Every figure of the answer stands in the question as well: then such a figure is the answer.
        numbers = [n for n in read_numbers(answer) if not is_aside(answer, n)]
        sentences = [s for s in _sentences(answer) if any(_inside(n, s) for n in numbers)]
    if not sentences:
        return []
    start, end = _settling(answer, sentences)
    return _claim(answer, start, [n for n in numbers if _inside(n, (start, end))])


def is_aside(text: str, number: Number) -> bool:
    """Whether the number names a year, a date, a page or another place, a list's item, or counts years or decimals."""
    start, end = number.span
    is_whole = number.unit == "plain" and number.scale is None and number.decimals == 0
    if not is_whole:
        return False
    written = text[start:end]
    is_year = 1900 <= abs(number.value) < 2100 and "," not in written
    is_item = (
        re.search(r"(?:^|\n)[\s*(]*$", text[:start]) is not None and re.match(r"[.):]\**\s", text[end:]) is not None
    )
    return is_year or is_item or bool(_REFERENCE.search(text[:start])) or bool(_COUNTS_TIME.match(text[end:]))


def _settling(answer: str, sentences: list[tuple[int, int]]) -> tuple[int, int]:
    """The sentence that settles the answer, of those that have numbers."""
    concluding = [s for s in sentences if _CONCLUDES.search(answer[slice(*s)])]
    if concluding:
        # What follows a conclusion with a rounding or one more equation is still the conclusion.
        later = [s for s in sentences if s > concluding[-1] and _continues(answer[slice(*s)])]
        return (later or concluding)[-1]
    calculating = [s for s in sentences if _EQUALS.search(answer[slice(*s)]) or _ROUNDS.search(answer[slice(*s)])]
    if calculating and len(sentences) > 1:
        return calculating[-1]
    return sentences[0]


def _continues(sentence: str) -> bool:
    return bool(_EQUALS.search(sentence) or _ROUNDS.search(sentence))


def _claim(answer: str, start: int, numbers: list[Number]) -> list[Number]:
    """The number that a sentence claims and its other wordings: after the last equals sign, or after the verb."""
    for pattern, pick in ((_EQUALS, -1), (_VERB, 0)):
        marks = [found.end() + start for found in pattern.finditer(answer[start : numbers[-1].span[1]])]
        after = [n for n in numbers if marks and n.span[0] >= marks[pick]]
        if after:
            return _with_other_wordings(answer, after)
    return _with_other_wordings(answer, numbers)


def _with_other_wordings(answer: str, numbers: list[Number]) -> list[Number]:
    claim = numbers[:1]
    for number in numbers[1:]:
        between = answer[claim[-1].span[1] : number.span[0]]
        if not between.strip() or len(between) > _LONGEST_LINK or not _SAME_AGAIN.fullmatch(between):
            break
        claim.append(number)
    return claim


def _sentences(text: str) -> list[tuple[int, int]]:
    ends = [found.span() for found in _SENTENCE_END.finditer(text)]
    starts = [0, *(end for _, end in ends)]
    return list(zip(starts, [*(start for start, _ in ends), len(text)], strict=True))


def _inside(number: Number, sentence: tuple[int, int]) -> bool:
    return sentence[0] <= number.span[0] < sentence[1]


def _identity(number: Number) -> tuple[float, str]:
    return number.amount, number.unit
