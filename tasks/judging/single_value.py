"""Whether an answer states a number as its one value.

"5% to 7%", "$5 million or $7 million", "between 5 and 7", "up to 5", "not 5", "1,248 / 87,583" and "$5 million in 2021"
in reply to a question about 2022 have a number, and do not state it as the value that is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tasks.judging.numbers import Number

_NEAR = 60  # characters around a number that can say what it is
_ABOUT = r"(?:(?:about|approximately|around|roughly|nearly|perhaps|maybe|even|possibly|the)\s+)?"

_RANGE = re.compile(rf"\s*(?:[-‐‑−–—~]|\.{{2,3}}|…|\b(?:to|through|until|and)\b)\s*{_ABOUT}|:", re.IGNORECASE)
_CHOICE = re.compile(
    rf"\s*(?:,|,?\s*(?:and/or|or|or else|or maybe|versus|vs\.?)\b|;)\s*(?:(?:or|and)\s+)?{_ABOUT}", re.IGNORECASE
)
_OPERATION = re.compile(
    r"[\s)\]}*]*(?:[+/×÷±−-]|(?<!\*)\*(?!\*)|\\times|\\div|\b(?:times|divided by|multiplied by|plus|minus)\b)"
    r"[\s(\[{*$]*"
    r"|\s*\)?\s*x\s*\(?\s*",
    re.IGNORECASE,
)
_ENDPOINT = re.compile(rf"\b(?:from|between)\s+{_ABOUT}$", re.IGNORECASE)
_BOUND = re.compile(
    r"(?:\b(?:up to|at (?:least|most)|(?:more|less|greater|fewer|higher|lower) than|over|under|above|below|exceed\w*"
    r"|in excess of|north of|max(?:imum)?|min(?:imum)?|(?:less|greater) than or equal to|\\leq?|\\geq?|as (?:much"
    r"|many|high|low) as|(?:maximum|minimum|limit) of)|[<>≤≥]=?)\s*"
    rf"{_ABOUT}$",
    re.IGNORECASE,
)
_BOUND_AFTER = re.compile(
    r"\s*(?:(?:minimum|maximum|tops)\b|\+(?!\s*[\d$€£(])|or (?:more|less|fewer|higher|lower|greater|above|below)\b"
    r"|and (?:above|below|over|up)\b"
    r"|at (?:most|least)\b)",
    re.IGNORECASE,
)
_ASKS_BOUND = re.compile(
    r"\b(?:up to|at (?:least|most)|maximum|minimum|limit|(?:more|less|greater|fewer|higher|lower) than|exceed\w*|over"
    r"|above|below)\b",
    re.IGNORECASE,
)
# What follows a second number that only qualifies the first: "$389 million, $21 million more", "or $0.07 a share".
_QUALIFIES = re.compile(
    r"\s*(?:(?:per|a|each)\s+share\b|cents\b|(?:more|less|higher|lower|above|below)\b)", re.IGNORECASE
)
_DENIED = re.compile(
    r"(?:\b(?:hardly|doubt(?:\s\w+){0,3}|anything but|incorrect:?|wrong:?|false(?:\s\w+){0,4}|assum\w+|suppos\w+|if"
    r"|is it|not|never|neither|nor|cannot be|rather than|instead of|no longer|except(?: for)?|without|other than)"
    r"|n't|n’t)\b\s*"
    rf"(?:(?:equal to|equals?|exactly|just|simply|only|the|a|an|be|been|have|of|to|at|by|in)\s+){{0,3}}{_ABOUT}[$(*]*$",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    r"[^.!?;\n]{0,20}?\s(?:(?:is|was|are|were|would be)\s(?:not|never|incorrect|wrong|false|inaccurate)"
    r"|(?:isn|wasn|aren|weren)['’]t)\b",
    re.IGNORECASE,
)
_LONG_FRACTION = re.compile(r"\D*\d[\d,]*/\d[\d,]{2,}\D*|\D*\d[\d,]{2,}/[\d,]+\D*")
_YEAR = re.compile(r"(?<![\d,.$])(?:19|20)\d\d(?![\d,]*\d)")
_SHORT_YEAR = re.compile(r"\b(?:FY|CY)\s?'?(\d\d)(?!\d)", re.IGNORECASE)
_OF_YEAR = re.compile(
    r"\)?,?\s*(?:in|for|at the end of)\s+(?:the\s+)?(?:(?:fiscal|financial|calendar)\s+)?(?:year\s+)?(?:FY\s?)?"
    r"((?:19|20)\d\d)(?![\d,]*\d)(?!\s*(?:and|to|[-–])\s*(?:FY\s?)?(?:19|20)\d\d)",
    re.IGNORECASE,
)


def is_single(question: str, answer: str, claim: Sequence[Number], figures: Sequence[Number]) -> bool:
    """Whether the claim, one number in one or more wordings, is stated as the value that the question asks for.

    `figures` are the numbers of the sentence, in order, the claim's among them.
    """
    first, last = claim[0], claim[-1]
    before = answer[max(0, first.span[0] - _NEAR) : first.span[0]]
    earlier = [number for number in figures if number.span[0] < first.span[0]][-1:]
    later = [number for number in figures if number.span[0] > last.span[0]][:1]
    after = answer[last.span[1] : last.span[1] + _NEAR]
    if _is_bound(question, before, after) or _DENIED.search(before) or _DENIED_AFTER.match(after):
        return False
    if _LONG_FRACTION.fullmatch(answer[slice(*first.span)]):  # a calculation without its result
        return False
    if later and _ENDPOINT.search(before):
        return False
    pairs = [*((number, first) for number in earlier), *((last, number) for number in later)]
    return not any(_is_joined(answer, *pair) for pair in pairs) and not _is_of_other_year(question, answer, last)


def _is_bound(question: str, before: str, after: str) -> bool:
    """Whether the number is a limit; where the question asks for a limit, that is the value."""
    is_limit = _BOUND.search(before) or _BOUND_AFTER.match(after)
    return bool(is_limit) and not _ASKS_BOUND.search(question)


def _is_joined(answer: str, one: Number, other: Number) -> bool:
    """Whether two numbers that follow each other are a range, a choice, a list or a calculation without its result."""
    between = answer[one.span[1] : other.span[0]] + _leading_stroke(answer, other)
    if len(between) > _NEAR:
        return False
    if _OPERATION.fullmatch(between) and not _is_stroke(between):
        return True
    is_comparable = one.unit == other.unit or "plain" in (one.unit, other.unit)
    if not is_comparable or _QUALIFIES.match(answer, other.span[1]):
        return False
    is_ratio = other.value == 1 and between.strip().lower() in ("to", ":")  # "1.5 to 1" is a ratio of 1.5
    return bool(_RANGE.fullmatch(between) or _CHOICE.fullmatch(between)) and not is_ratio


def _leading_stroke(answer: str, number: Number) -> str:
    """The stroke that was read as the sign of a second number, and may as well join it to the first."""
    sign = answer[number.span[0]]
    return sign if sign in "-‐‑−–" else ""


def _is_stroke(between: str) -> bool:
    return between.strip() in tuple("-‐‑−–")


def _is_of_other_year(question: str, answer: str, number: Number) -> bool:
    """Whether the number is said to be of a year that the question does not name, though it names some."""
    match = _OF_YEAR.match(answer, number.span[1])
    years = [int(year) for year in _YEAR.findall(question)]
    years += [2000 + int(year) for year in _SHORT_YEAR.findall(question)]
    if not years:
        return False
    if match is not None:
        return not min(years) <= int(match[1]) <= max(years)
    start = max(answer.rfind(end, 0, number.span[0]) for end in (". ", "\n", "; "))
    named = [int(year) for year in _YEAR.findall(answer[start + 1 : number.span[0]])]
    return bool(named) and not any(min(years) <= year <= max(years) for year in named)
