"""Stage 1: a gold that is a pure number, decided without a model.

It says "correct" or nothing.  The number that the answer settles on is brought to the gold's unit and accepted where
its relative error is within the tolerance.  One thing widens that: a question that asks for rounding ("to two decimal
places") makes the gold a rounded number, which every number that rounds to it equals; the digits that the gold happens
to be written with do not.  What the rule is not sure of, it leaves to stage 2.
"""

from __future__ import annotations

import math
import re

from tasks.judging.numbers import SCALES, Number, read_numbers
from tasks.judging.settled_number import is_incidental, settled_numbers

# Who says that the figures are missing has not answered, whatever figures follow ("for example, 10 / 40 = 25%").
_DECLINES = re.compile(
    r"(?i)\b(?:cannot|can't|can not|unable to|not possible to|impossible to)\s+(?:\w+\s+){0,2}"
    r"(?:provide|determine|calculate|compute|answer|find|give|access|be (?:determined|calculated|computed|answered))"
    r"|\bdo(?:es)?(?: not|n't) (?:\w+ )?(?:have access|have real|provide|contain|include|specify|mention|outline)"
    r"|\bno (?:explicit |specific )?(?:mention|information|data|evidence)\b|\bnot (?:provided|available|mentioned)\b"
    r"|\bwould need\b|\bfor example, if\b|\b(?:please|if you(?: can| could)?) provide\b|\bonce you have\b"
    r"|\bif you have (?:access|the)\b|\byou (?:will|would) need\b"
)
_HYPOTHETICAL = re.compile(r"(?i)\b(?:if|once|please|would|need|example|assum\w+|suppos\w+|hypothe\w+|illustrat\w+)\b")
_RESULT = re.compile(r"[=≈≅]\s*[^\s=≈≅]")
_ASKS_AMOUNT = re.compile(
    r"(?i)[$€£¥%]|\b(?:USD|EUR|GBP|dollars?|euros?|per\s?cent\w*|how (?:much|far|long|large|big|heavy)|amount|ratio"
    r"|margin|rate|growth|average|mean|turnover|days|revenues?|sales|costs?|expen\w+|income|profit|earnings|assets"
    r"|liabilit\w+|debt|cash|price|value|dividends?|EBIT\w*|capex|distance|weight|length|area|volume|speed|temperature"
    r"|time)\b"
)
_ASKS_COUNT = re.compile(
    r"(?i)\b(?:how many|number of|count of|(?:which|what) (?:year|date|day|month|page|number|id|version)|when"
    r"|how old)\b"
)
_PLACES = re.compile(r"(?i)\b(zero|no|one|two|three|four|five|[0-5])[\s-]decimal")
_NEAREST = re.compile(
    r"(?i)\bnearest (?:(tenth|hundredth|thousandth|cent|whole|integer|dollar|day|percent\w*|million|billion"
    r"|thousand)s?)\b"
)
_COUNTS = {"zero": 0, "no": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
_NEAREST_PLACES = {"tenth": 1, "hundredth": 2, "cent": 2, "thousandth": 3}


def find_match(question: str, gold: str, answer: str, tolerance: float) -> tuple[Number, str] | None:
    """The number of the answer that agrees with the gold, and the reasoning; `tolerance` is a relative error."""
    target = pure_number(gold)
    if target is None or declines(answer):
        return None
    places = _requested_places(question, target)
    if not _is_quantity(question, target):
        tolerance = 0.0
    for number in settled_numbers(question, answer):
        if _has_other_unit(number, question, gold, answer):
            return None
        values = _in_unit_of(target, number, question, answer)
        settles = f"The answer settles on {answer[slice(*number.span)]},"
        if any(is_close(value, target.value, tolerance) for value in values):
            within = f"within {100 * tolerance:g}% of" if target.value and tolerance else "equal to"
            return number, f"{settles} {within} {gold.strip()}."
        if any(_rounds_to(value, target, places) for value in values):
            return number, f"{settles} which rounds to {gold.strip()} as the question asks."
    return None


def has_quantity(question: str, gold: str, answer: str, tolerance: float) -> bool:
    """Whether the gold has one quantity, and the answer settles on one that agrees with it in unit and currency."""
    golds = [number for number in read_numbers(gold) if not is_incidental(gold, number)]
    if len(golds) != 1 or not _is_quantity(question, target := golds[0]) or declines(answer):
        return False
    return any(
        is_close(value, target.value, tolerance)
        for number in settled_numbers(question, answer)
        if not _has_other_unit(number, question, gold, answer)
        for value in _in_unit_of(target, number, question, answer)
    )


def _is_quantity(question: str, gold: Number) -> bool:
    """Whether a tolerance makes sense: not for a year, an identifier or a count of people or things.

    These are whole numbers without a unit, where the question names no unit and no amount either.
    """
    if gold.unit != "plain" or gold.scale is not None or gold.decimals or gold.exact.denominator > 1:
        return True
    return bool(_named_scale(question) or (_ASKS_AMOUNT.search(question) and not _ASKS_COUNT.search(question)))


def pure_number(gold: str) -> Number | None:
    """The number that the whole gold is ("$1577.00", "65.4%"), or None where it says anything more."""
    text = gold.strip().rstrip(".")
    numbers = read_numbers(text)
    return numbers[0] if len(numbers) == 1 and numbers[0].span == (0, len(text)) else None


def declines(answer: str) -> bool:
    """Whether the answer says that it lacks the figures, and goes on to no result but an example's."""
    *_, last = [None, *_DECLINES.finditer(answer)]
    if last is None:
        return False
    rest = answer[last.start() :]
    return not _RESULT.search(rest) or _HYPOTHETICAL.search(rest) is not None


def in_gold_unit(number: Number, gold: Number, question: str, answer: str) -> float | None:
    """The number's value in the gold's unit, in the reading that agrees best; None where it cannot be in that unit."""
    values = _in_unit_of(gold, number, question, answer)
    return min(values, key=lambda value: abs(value - gold.value), default=None)


def is_close(value: float, target: float, tolerance: float) -> bool:
    """|value - target| <= tolerance * |target|; a target of 0 is met by 0 alone, and nothing by what is not finite."""
    if not (math.isfinite(value) and math.isfinite(target)):
        return False
    return abs(value - target) <= tolerance * abs(target) * (1 + 1e-12)


def _requested_places(question: str, gold: Number) -> int | None:
    """To how many decimals of the gold's unit the question asks to round."""
    if match := _PLACES.search(question):
        word = match[1].lower()
        return _COUNTS[word] if word in _COUNTS else int(word)
    if (match := _NEAREST.search(question)) is None:
        return None
    word = match[1].lower()
    if word in SCALES and word not in _NEAREST_PLACES:
        # "to the nearest million" says how a gold in millions was rounded, and no other.
        return 0 if SCALES[word] == (gold.scale or _named_scale(question)) else None
    return _NEAREST_PLACES.get(word, 0)


def _rounds_to(value: float, gold: Number, places: int | None) -> bool:
    """Whether the value, rounded as the question asks, is the gold: 0.0142 is 0.01. A gold of 0 is met by 0 alone."""
    if places is None or gold.decimals > places or gold.value == 0 or not math.isfinite(value):
        return False
    return abs(value - gold.value) <= 0.5 * 10.0**-places * (1 + 1e-9)


# A number of an answer in the unit of the gold: scale, percentage, currency and sign.  Every reading rests on something
# that is written: in the number, beside it, elsewhere in the answer, or in the question.  A gold without a scale word
# counts in the scale that the question names, else in full units: "$8.70" is then not 8.70 million.
_NEAR = 60  # characters before a number that can say what its sign is
_SCALE_WORD = r"(thousands?|millions?|billions?|trillions?|mm|mn|bn)\b"
_MONEY_WORDS = r"(?:the\s+|USD\s+|EUR\s+|GBP\s+|U\.S\.\s+|US\s+|dollars?\s+|(?:US)?[$€£]\s*|\(\s*)*"
_ANY_WORD = r"(?:(?!two|three|four|five|six|seven|eight|nine|ten|over|about|several)[a-z]+\s+)?"
# "in USD millions", "in $mm", "(in thousands)", "in reported millions", "USD (millions)", "how many million dollars"
_NAMED_SCALE = re.compile(
    rf"(?i)\bin\s+{_ANY_WORD}{_MONEY_WORDS}{_SCALE_WORD}|(?:\bUSD|\$)\s?\(?{_SCALE_WORD}|\$([mb])\b"
    rf"|\bhow many\s+{_SCALE_WORD}"
)
# "1,577 (in thousands)", "1,577 (USD millions)", "1,577, in millions"
_SCALE_BESIDE = re.compile(rf"(?i)[\s*,]*(?:[(\[]\s*(?:(?:\w+\s){{0,2}}in\s+)?|in\s+){_MONEY_WORDS}{_SCALE_WORD}")
_SHARES = ("percent", "basis_points")
_ASKS_PERCENT = re.compile(r"(?i)%|\bper\s?cent")
_ASKS_SHARE = re.compile(r"(?i)%|\bper\s?cent|\b(?:margin|rate|growth|yield)\b")
# The name of a figure or a choice, not a statement about its sign: "profit or loss", "income (loss)", "gain/loss".
_NO_SIGN = re.compile(
    r"(?i)\b\w+\s?(?:\bor\b|\band\b|/)\s?(?:\w+ )?(?:loss(?:es)?|decreas\w+|declin\w+)\b|\(loss(?:es)?\)"
    r"|\bloss(?:es)? or\b"
)
_CLAUSE_END = re.compile(
    r"(?i)(?<!Inc)(?<!Co)(?<!Corp)(?<!Ltd)[.;\n]\s|,\s(?!Inc|Co|Ltd|LLC)"
    r"|\b(?:but|while|whereas|although|and|compared)\b"
)
_NEGATIVE = re.compile(r"(?i)\b(?:loss(?:es)?|negative|minus|deficit|outflow|used)\b")
_LOSS = re.compile(r"(?i)\b(?:loss(?:es)?|lost|deficit|outflow|in the red)\b")
_LOSS_AFTER = re.compile(r"(?i)[\s(]*(?:loss(?:es)?|deficit|outflow)\b")
_RISE = re.compile(
    r"(?i)\b(?:rose|ris(?:e|en|es|ing)|grew|grow\w*|increas\w+|gain\w*|up|improv\w+|climb\w*|expan\w+|profit\w*)\b"
)
_MINUS_WORD = re.compile(r"(?i)\b(?:negative|minus)\s+$")
_FALL = re.compile(
    r"(?i)\b(?:decreas\w+|declin\w+|fell|fall\w*|drop(?:s|ped)?|reduc\w+|down|lower\w*|contract(?:ed|s|ing|ion)"
    r"|shr[aiu]nk\w*|sl(?:id|ides?|ump\w*|ip(?:s|ped))|plung\w+|plummet\w*|tumbl\w+|sank|sunk|dip(?:s|ped)|worsen\w*"
    r"|weaken\w*|los[et]|diminish\w*|deteriorat\w+|retreat\w*|less|smaller|erod\w+|crater\w*|off|below)\b"
)
_FALL_AFTER = re.compile(
    r"(?i)\s*(?:[\w-]+\s){0,2}(?:decrease|decline|drop|fall|reduction|lower|contraction|slump|dip|less|loss|smaller)\b"
)
# "fell to 5%" gives the level that was reached, and no fall of 5%.
_LEVEL = re.compile(r"(?i)\b(?:to|at)\s+(?:(?:about|approximately|around|roughly|only|just)\s+)?$")
_ASKS_RESULT = re.compile(r"(?i)\b(?:income|profit|earnings|margin|EBIT\w*|results?|return|gain|EPS)\b")
_ASKS_CHANGE = re.compile(
    r"(?i)\b(?:chang\w+|grow\w*|grew|increas\w+|difference|rise|rose|risen|up|improv\w+|expan\w+|gain\w*|climb\w*)\b"
)
_ASKS_LOSS = re.compile(
    r"(?i)\b(?:net|operating|gross|pre-?tax|total|the) loss(?:es)?\b|\bloss(?:es)? (?:of|per|before|from|for|on)\b"
    r"|\bhow much\b[^?.]{0,80}\b(?:declin|decreas|drop|fell|fall|reduc)"
    r"|\b(?:decrease|decline|drop|fall|reduction|outflow|deficit) (?:in|of|from)\b"
)
_ASKS_PAYMENT = re.compile(
    r"(?i)\b(?:capex|(?:capital )?expenditures?|spen[dt]\w*|purchas\w+|pay|paid|payments?|dividends?|repurchas\w+"
    r"|buybacks?|costs?|expenses?|used)\b"
)
# What may stand beside a number and change what it counts: units of measure, scales that are not read, currencies.
_MEASURE = (
    r"k?m|cm|mm|µm|miles?|mi|feet|foot|ft|inch(?:es)?|yards?|k?g|mg|tonnes?|tons?|lbs?|ounces?|oz|pounds?"
    r"|lit(?:er|re)s?|ml|gallons?|°\s?[CF]|celsius|fahrenheit|kelvin|seconds?|minutes?|hours?|days?|weeks?|months?"
    r"|quarters?|[kMGT]?W|k?Wh|[kMGT]?Hz|[KMGT]B|calories|kcal|joules?|volts?|amps?"
)
_UNREAD_SCALE = (
    r"billionen|billones|millones|milliards?|milliarden|quadrillion|mil|score|pairs?|gross|per mille|per thousand"
    r"|percentile"
)
_ADJECTIVES = (
    r"canadian|australian|mexican|swedish|norwegian|danish|hong kong|singapore|new zealand|brazilian|argentine|chilean"
    r"|colombian|swiss|indian|pakistani|japanese|chinese|turkish|russian|british|egyptian|CAD|AUD|MXN|SEK|NOK|DKK|HKD"
    r"|SGD|NZD|BRL|ARS|CHF|INR|JPY|CNY|RMB|GBP|EUR|USD|Rs\.?|Rp|kr\.?|Fr\.?|pounds?|pesos?|kron(?:er|or|a|e)|rand"
    r"|euros?|yen|rupees?"
)
_BEHIND = re.compile(rf"(?i)[\s*_)]*(?:\(?(?:in\s)?)?({_MEASURE}|{_UNREAD_SCALE}|{_ADJECTIVES})(?![\w'])")
_BEFORE = re.compile(rf"(?i)(?<!\w)({_ADJECTIVES})\s?$")


def _has_other_unit(number: Number, question: str, gold: str, answer: str) -> bool:
    """Whether a unit, a scale or a currency stands beside the number that neither question nor gold has."""
    start, end = number.span
    written = re.search(r"[A-Za-zµ°²³]+$", answer[start:end])
    found = [_BEFORE.search(answer[max(0, start - _NEAR) : start]), _BEHIND.match(answer, end)]
    words = [match[1].lower() for match in found if match]
    if written and number.unit == "plain" and number.scale is None:
        words.append(written[0].lower())
    known = f"{question} {gold}".lower()
    return any(not re.search(rf"(?<![a-z]){re.escape(word.rstrip('s.'))}", known) for word in words)


def _in_unit_of(gold: Number, number: Number, question: str, answer: str) -> list[float]:
    """The values that the number may have in the gold's unit; none for money and a percentage, dollars and euros."""
    if gold.currency and number.currency and gold.currency != number.currency:
        return []
    if gold.unit in _SHARES or number.unit in _SHARES:
        values = _share_values(gold, number, question)
    elif {gold.unit, number.unit} == {"money", "multiple"}:
        return []
    else:
        gold_scale = gold.scale or _named_scale(question)
        scales = _scales(number, question, answer, counts_full_units=gold_scale is None)
        values = [number.value * scale / (gold_scale or 1.0) for scale in sorted(scales)]
    return [sign * value for value in values for sign in _signs(gold, number, question, answer)]


def _named_scale(text: str) -> float | None:
    """The scale of "in USD millions", "(in thousands)"; None where none is named."""
    match = _NAMED_SCALE.search(text)
    return SCALES[next(word for word in match.groups() if word).lower()] if match else None


def _scales(number: Number, question: str, answer: str, counts_full_units: bool) -> set[float]:
    """What the number may be multiplied by: as written with it or beside it, else as question and answer name it."""
    if number.scale:
        return {number.scale}
    if beside := _SCALE_BESIDE.match(answer, number.span[1]):
        return {SCALES[beside[1].lower()]}
    named = _named_scale(answer)
    scales = {scale for scale in (_named_scale(question), named) if scale}
    # In an answer "in millions", money without a scale word counts millions. A ratio there counts one.
    is_named_money = named is not None and number.unit == "money"
    return scales if counts_full_units and is_named_money else scales | {1.0}


def _share_values(gold: Number, number: Number, question: str) -> list[float]:
    """Readings in which a side is a percentage: the other may be one without its sign, or a fraction."""
    if {gold.unit, number.unit} & {"money", "multiple"} or gold.scale or number.scale:
        return []
    if number.unit == "plain":
        # A number below 1 without a percent sign is a fraction, unless the question asks for percent.
        is_percentage = gold.unit == "percent" and (abs(gold.value) >= 1 or _ASKS_PERCENT.search(question) is not None)
        fraction = number.value * (100.0 if gold.unit == "percent" else 10_000.0)
        return [fraction, number.value] if is_percentage else [fraction]
    percentage = number.value / 100 if number.unit == "basis_points" else number.value
    if gold.unit == "plain":
        asked = _ASKS_SHARE if abs(gold.value) >= 1 else _ASKS_PERCENT
        return [percentage / 100, percentage] if asked.search(question) else [percentage / 100]
    return [percentage * 100 if gold.unit == "basis_points" else percentage]


def _signs(gold: Number, number: Number, question: str, answer: str) -> tuple[float, ...]:
    """The factors by which the number may be multiplied: -1 where its sign is a guess or stands in a word."""
    if _ASKS_LOSS.search(_NO_SIGN.sub(" ", question)):
        before = _CLAUSE_END.split(answer[max(0, number.span[0] - _NEAR) : number.span[0]])[-1]
        if gold.value > 0 and _RISE.search(before) and not _NEGATIVE.search(before) and not _FALL.search(before):
            return ()  # a rise or a profit where a fall or a loss is asked for
        return (1.0, -1.0)  # The question has the sign: a loss of 5 and a result of -5 are the same.
    if number.in_parentheses:
        # Statements write what is paid in brackets. Otherwise brackets make a positive result a loss.
        return (1.0, -1.0) if gold.value > 0 and _ASKS_PAYMENT.search(question) else (1.0,)
    if number.value > 0 and _is_said_negative(gold, number, question, answer):
        return (-1.0,)
    return (1.0,)


def _is_said_negative(gold: Number, number: Number, question: str, answer: str) -> bool:
    """Whether words beside a number without a minus sign say that it is negative.

    For a negative gold any word for a loss or a fall will do.  A positive gold is contradicted only by a word that
    answers what is asked: a loss where the question asks for a result, a fall where it asks for a change.
    """
    start, end = number.span
    before = _CLAUSE_END.split(_NO_SIGN.sub(" ", answer[max(0, start - _NEAR) : start]))[-1]
    if _MINUS_WORD.search(before):
        return True
    is_fall = bool(_FALL.search(before) and not _LEVEL.search(before)) or bool(_FALL_AFTER.match(answer, end))
    if gold.value < 0:
        return is_fall or bool(_NEGATIVE.search(before))
    is_loss = bool(_LOSS.search(before) or _LOSS_AFTER.match(answer, end)) and bool(_ASKS_RESULT.search(question))
    return is_loss or (is_fall and bool(_ASKS_CHANGE.search(question)))
