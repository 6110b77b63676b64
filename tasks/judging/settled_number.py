"""Which number an answer settles on, of all that it mentions.

An answer mentions years, pages, the question's own figures, other years' figures and the steps of a calculation.  It
settles on one: what it marks as its result ("#### 42", a box in TeX); or else what it concludes with, where it draws a
conclusion; or else the result of its last calculation; or else the first figure that it states.  So an answer gains
nothing by mentioning more.  Where that place has a range, a choice, a list, a limit, a denial or a calculation without
its result, the answer settles on nothing.
"""

from __future__ import annotations

import dataclasses
import re
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction

from tasks.judging.numbers import Number, final_mark, read_numbers

_SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][*)\"”]))\s+(?=[\W_]*[A-Z$€£\d(])|\n+")
_CONCLUDES = re.compile(
    r"(?i)\b(?:therefore|thus|hence|consequently|accordingly|in conclusion|to conclude|in summary|overall"
    r"|(?:final|correct) answer|(?:the )?answer (?:is|to)|final(?: result)?:)\b|^[\W_]*(?:so|answer|result)\b"
)
_ROUNDS = re.compile(r"(?i)\bround(?:ed|ing|s)?\b")
_EQUALS = re.compile(r"[=≈≅]")
# The verb of the main clause: "grew by 46%, which is 4.6% of sales" claims 46%.
_VERB = re.compile(
    r"(?i)(?<!which )(?<!that )\b(?:is|was|are|were|equals?|amounts? to|amounted to|totall?ed|comes? to|came to"
    r"|stands at|stood at|reached|would be|will be|be)\b|:(?!\d)|(?<!\d):"
)
# "X or Y", "X (Y)", "X, i.e. Y", "X ≈ Y": the same amount said twice.
_SAME_AGAIN = re.compile(
    r"(?i)(?:\b(?:or|i\.e\.|that is|equivalently|equivalent to|equals?|equal to|about|approximately|roughly|rounded to"
    r"|rounds to|expressed as|when|as|a|percentage|days|times)(?!\w)|[\s=≈≅,*(\[])*"
)
_NEAR = 60  # characters around a number that can say what it is
_MOST_WORDINGS = 4  # of one amount
_SLIP = 0.002  # by which two wordings of one amount may differ beyond their rounding
_OPENS_LINE = re.compile(r"\n[ *(]*$")
_ITEM_MARK = re.compile(r"[.):]\**\s")
_REFERENCE = re.compile(
    r"(?i)\b(?:page|pages|pp?\.|note|notes|item|items|section|exhibit|table|figure|step|part|chapter|line|form|no\."
    r"|number|#|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec)[a-z]*\.?)\s*$"
)
_DATE = re.compile(r"\b\d{1,2}/\d{1,2}/(?:\d{4}|\d{2})\b|\b(?:19|20)\d\d[-/]\d{1,2}[-/]\d{1,2}\b")
_COUNTS_TIME = re.compile(
    r"(?i)\s*(?:-?\s*(?:decimal|digit|significant|months?|weeks?|quarters?|years?|fiscal)\b|(?:st|nd|rd|th)\b"
    r"|(?:january|february|march|april|may|june|july|august|september|october|november|december)\b)"
)


def settled_numbers(question: str, answer: str) -> list[Number]:
    """The number that the answer settles on, with its other wordings ("0.0142 or 1.42%"); empty where there is none."""
    if (mark := final_mark(answer)) is not None:
        marked = [
            dataclasses.replace(number, span=(number.span[0] + mark.start, number.span[1] + mark.start))
            for number in read_numbers(mark.text)
        ]
        return marked if len(marked) == 1 and _is_single(question, answer, marked, marked) else []
    requested = {_identity(number) for number in read_numbers(question)}
    figures = [number for number in read_numbers(answer) if not is_incidental(answer, number)]
    # Where every figure of the answer stands in the question as well, such a figure is the answer.
    numbers = [number for number in figures if _identity(number) not in requested] or figures
    sentences = _sentences_with(answer, numbers)
    if not sentences:
        return []
    sentence = _final_sentence(answer, sentences)
    inside = range(*sentence)
    claim = _claim(answer, sentence[0], [number for number in numbers if number.span[0] in inside])
    neighbours = [number for number in figures if number.span[0] in inside]
    return claim if _is_single(question, answer, claim, neighbours) else []


def is_incidental(text: str, number: Number) -> bool:
    """Whether the number names a year, a date, a page or another place, a list's item, or counts years or decimals."""
    start, end = number.span
    if number.unit != "plain" or number.scale is not None or number.decimals:
        return False
    before, after = text[max(0, start - _NEAR) : start], text[end : end + _NEAR]
    is_year = 1900 <= abs(number.value) < 2100 and "," not in text[start:end]
    opens_line = (start <= _NEAR and not before.strip(" *(")) or _OPENS_LINE.search(before) is not None
    is_item = opens_line and _ITEM_MARK.match(after) is not None
    is_date = any(date.start() <= start < date.end() for date in _DATE.finditer(text, max(0, start - 10), end + 10))
    return is_year or is_item or is_date or bool(_REFERENCE.search(before)) or bool(_COUNTS_TIME.match(after))


def _final_sentence(answer: str, sentences: list[tuple[int, int]]) -> tuple[int, int]:
    """The sentence that settles the answer, of those that have numbers."""
    concluding = [s for s in sentences if _CONCLUDES.search(answer[slice(*s)])]
    calculating = [s for s in sentences if _EQUALS.search(answer[slice(*s)]) or _ROUNDS.search(answer[slice(*s)])]
    if concluding:
        # What follows a conclusion with a rounding or one more equation is still the conclusion.
        return max([concluding[-1], *calculating])
    return calculating[-1] if calculating else sentences[0]


def _claim(answer: str, start: int, numbers: list[Number]) -> list[Number]:
    """The number that a sentence claims and its other wordings: after the last equals sign, or after the verb."""
    for pattern, pick in ((_EQUALS, -1), (_VERB, 0)):
        marks = [found.end() + start for found in pattern.finditer(answer[start : numbers[-1].span[1]])]
        after = [n for n in numbers if marks and n.span[0] >= marks[pick]]
        if after:
            return _with_other_wordings(answer, after)
    return _with_other_wordings(answer, numbers)


def _with_other_wordings(answer: str, numbers: list[Number]) -> list[Number]:
    """The first number and those that repeat it in other words; a list of amounts, or a choice, is no repetition."""
    claim = numbers[:1]
    for number in numbers[1:_MOST_WORDINGS]:
        between = answer[claim[-1].span[1] : number.span[0]]
        is_linked = between.strip(" ,*\n") and len(between) <= _NEAR and _SAME_AGAIN.fullmatch(between)
        if not is_linked or not _is_same(claim[0], number):
            break
        claim.append(number)
    return claim


def _is_same(first: Number, second: Number) -> bool:
    """Whether two numbers are one amount: in another unit or scale, or one of them rounded."""
    one, other = _in_base_units(first, first.value), _in_base_units(second, second.value)
    scales = (1.0, 1e3, 1e6, 1e9, 1e12) if first.scale is None or second.scale is None else (1.0,)
    # "42.57 or 43" is one number and its rounding; "5 or 5.4" is two numbers.
    half_one = _in_base_units(first, 0.5 * 10.0**-first.decimals) if first.decimals else 0.0
    half_other = _in_base_units(second, 0.5 * 10.0**-second.decimals)
    pairs = [(one * scale, other, half_one * scale, half_other) for scale in scales]
    pairs += [(one, other * scale, half_one, half_other * scale) for scale in scales]
    return any(abs(a - b) <= max(_SLIP * abs(a), *halves) for a, b, *halves in pairs)


def _in_base_units(number: Number, value: float) -> float:
    """A value that has the number's unit and scale without them; a percentage as a fraction."""
    return value * (number.scale or 1.0) / {"percent": 100.0, "basis_points": 10_000.0}.get(number.unit, 1.0)


def _sentences_with(text: str, numbers: list[Number]) -> list[tuple[int, int]]:
    """Where the sentences are that have one of the numbers."""
    ends = [found.span() for found in _SENTENCE_END.finditer(text)]
    starts = [0, *(end for _, end in ends)]
    places = [number.span[0] for number in numbers]
    sentences = zip(starts, [*(start for start, _ in ends), len(text)], strict=True)
    return [(start, end) for start, end in sentences if bisect_left(places, start) < bisect_left(places, end)]


def _identity(number: Number) -> tuple[Fraction, str]:
    return number.total, number.unit


# Whether an answer states a number as its one value.  "5% to 7%", "$5 million or $7 million", "up to 5", "not 5",
# "1,248 / 87,583" and "$5 million in 2021" in reply to a question about 2022 have a number, and do not.
_ABOUT = r"(?:(?:about|approximately|around|roughly|nearly|perhaps|maybe|even|possibly|the)\s+)?"
_RANGE = re.compile(rf"(?i)\s*(?:[-‐‑−–—~]|\.{{2,3}}|…|\b(?:to|through|until|and)\b)\s*{_ABOUT}|:")
_CHOICE = re.compile(rf"(?i)\s*(?:,|,?\s*(?:and/or|or|or else|or maybe|versus|vs\.?)\b|;)\s*(?:(?:or|and)\s+)?{_ABOUT}")
_OPERATION = re.compile(
    r"(?i)[\s)\]}*]*(?:[+/×÷±−-]|(?<!\*)\*(?!\*)|\\times|\\div"
    r"|\b(?:times|divided by|multiplied by|plus|minus)\b)[\s(\[{*$]*|\s*\)?\s*x\s*\(?\s*"
)
_ENDPOINT = re.compile(rf"(?i)\b(?:from|between)\s+{_ABOUT}$")
_BOUND = re.compile(
    r"(?i)(?:\b(?:up to|at (?:least|most)|(?:more|less|greater|fewer|higher|lower) than|over|under|above|below"
    r"|exceed\w*|in excess of|north of|max(?:imum)?|min(?:imum)?|(?:less|greater) than or equal to|\\leq?|\\geq?"
    r"|as (?:much|many|high|low) as|(?:maximum|minimum|limit) of)|[<>≤≥]=?)\s*"
    rf"{_ABOUT}$"
)
_BOUND_AFTER = re.compile(
    r"(?i)\s*(?:(?:minimum|maximum|tops)\b|\+(?!\s*[\d$€£(])|or (?:more|less|fewer|higher|lower|greater|above|below)\b"
    r"|and (?:above|below|over|up)\b|at (?:most|least)\b)"
)
_ASKS_BOUND = re.compile(
    r"(?i)\b(?:up to|at (?:least|most)|maximum|minimum|limit|(?:more|less|greater|fewer|higher|lower) than|exceed\w*"
    r"|over|above|below)\b"
)
# What follows a second number that only qualifies the first: "$389 million, $21 million more", "or $0.07 a share".
_QUALIFIES = re.compile(r"(?i)\s*(?:(?:per|a|each)\s+share\b|cents\b|(?:more|less|higher|lower|above|below)\b)")
_DENIED = re.compile(
    r"(?i)(?:\b(?:hardly|doubt(?:\s\w+){0,3}|anything but|incorrect:?|wrong:?|false(?:\s\w+){0,4}|assum\w+|suppos\w+"
    r"|if|is it|not|never|neither|nor|cannot be|rather than|instead of|no longer|except(?: for)?|without|other than)"
    r"|n't|n’t)\b\s*"
    rf"(?:(?:equal to|equals?|exactly|just|simply|only|the|a|an|be|been|have|of|to|at|by|in)\s+){{0,3}}{_ABOUT}[$(*]*$"
)
_DENIED_AFTER = re.compile(
    r"(?i)[^.!?;\n]{0,20}?\s(?:(?:is|was|are|were|would be)\s(?:not|never|incorrect|wrong|false|inaccurate)"
    r"|(?:isn|wasn|aren|weren)['’]t)\b"
)
_STROKES = "-‐‑−–"
_LONG_FRACTION = re.compile(r"\D*\d[\d,]*/\d[\d,]{2,}\D*|\D*\d[\d,]{2,}/[\d,]+\D*")
_YEAR = re.compile(r"(?<![\d,.$])(?:19|20)\d\d(?![\d,]*\d)")
_SHORT_YEAR = re.compile(r"(?i)\b(?:FY|CY)\s?'?(\d\d)(?!\d)")
_OF_YEAR = re.compile(
    r"(?i)\)?,?\s*(?:in|for|at the end of)\s+(?:the\s+)?(?:(?:fiscal|financial|calendar)\s+)?(?:year\s+)?(?:FY\s?)?"
    r"((?:19|20)\d\d)(?![\d,]*\d)(?!\s*(?:and|to|[-–])\s*(?:FY\s?)?(?:19|20)\d\d)"
)


def _is_single(question: str, answer: str, claim: Sequence[Number], figures: Sequence[Number]) -> bool:
    """Whether the claim, one number in one or more wordings, is stated as the value that the question asks for.

    `figures` are the numbers of the sentence, in order, the claim's among them.
    """
    first, last = claim[0], claim[-1]
    before = answer[max(0, first.span[0] - _NEAR) : first.span[0]]
    earlier = [number for number in figures if number.span[0] < first.span[0]][-1:]
    later = [number for number in figures if number.span[0] > last.span[0]][:1]
    after = answer[last.span[1] : last.span[1] + _NEAR]
    is_bound = (_BOUND.search(before) or _BOUND_AFTER.match(after)) and not _ASKS_BOUND.search(question)
    if is_bound or _DENIED.search(before) or _DENIED_AFTER.match(after):
        return False
    if _LONG_FRACTION.fullmatch(answer[slice(*first.span)]):  # a calculation without its result
        return False
    if later and _ENDPOINT.search(before):
        return False
    pairs = [*((number, first) for number in earlier), *((last, number) for number in later)]
    return not any(_is_joined(answer, *pair) for pair in pairs) and not _is_of_other_year(question, answer, last)


def _is_joined(answer: str, one: Number, other: Number) -> bool:
    """Whether two numbers that follow each other are a range, a choice, a list or a calculation without its result."""
    sign = answer[other.span[0]]  # a stroke that was read as a sign may as well join the two
    between = answer[one.span[1] : other.span[0]] + (sign if sign in _STROKES else "")
    if len(between) > _NEAR:
        return False
    if _OPERATION.fullmatch(between) and between.strip() not in tuple(_STROKES):
        return True
    is_comparable = one.unit == other.unit or "plain" in (one.unit, other.unit)
    if not is_comparable or _QUALIFIES.match(answer, other.span[1]):
        return False
    is_ratio = other.value == 1 and between.strip().lower() in ("to", ":")  # "1.5 to 1" is a ratio of 1.5
    return bool(_RANGE.fullmatch(between) or _CHOICE.fullmatch(between)) and not is_ratio


def _is_of_other_year(question: str, answer: str, number: Number) -> bool:
    """Whether the number is said to be of a year that the question does not name, though it names some."""
    years = [int(year) for year in _YEAR.findall(question)]
    years += [2000 + int(year) for year in _SHORT_YEAR.findall(question)]
    if not years:
        return False
    if match := _OF_YEAR.match(answer, number.span[1]):
        return not min(years) <= int(match[1]) <= max(years)
    start = max(answer.rfind(end, 0, number.span[0]) for end in (". ", "\n", "; "))
    named = [int(year) for year in _YEAR.findall(answer[start + 1 : number.span[0]])]
    return bool(named) and not any(min(years) <= year <= max(years) for year in named)
