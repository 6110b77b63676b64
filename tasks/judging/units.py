"""A number of an answer in the unit of the gold: scale, percentage, currency and sign.

Every reading rests on something that is written: in the number, beside it, elsewhere in the answer, or in the question.
A gold without a scale word counts in the scale that the question names, else in full units: "$8.70" is then neither
8.70 million nor 8.70 billion.
"""

from __future__ import annotations

import re

from tasks.judging.numbers import SCALES, Number

_NEAR = 60  # characters before a number that can say what its sign is

_SCALE_WORD = r"(thousands?|millions?|billions?|trillions?|mm|mn|bn)\b"
_MONEY_WORDS = r"(?:the\s+|USD\s+|EUR\s+|GBP\s+|U\.S\.\s+|US\s+|dollars?\s+|(?:US)?[$€£]\s*|\(\s*)*"
_ANY_WORD = r"(?:(?!two|three|four|five|six|seven|eight|nine|ten|over|about|several)[a-z]+\s+)?"
# "in USD millions", "in $mm", "(in thousands)", "in reported millions", "USD (millions)", "how many million dollars"
_NAMED_SCALE = re.compile(
    rf"\bin\s+{_ANY_WORD}{_MONEY_WORDS}{_SCALE_WORD}|(?:\bUSD|\$)\s?\(?{_SCALE_WORD}|\$([mb])\b"
    rf"|\bhow many\s+{_SCALE_WORD}",
    re.IGNORECASE,
)
# "1,577 (in thousands)", "1,577 (USD millions)", "1,577, in millions"
_SCALE_BESIDE = re.compile(
    rf"[\s*,]*(?:[(\[]\s*(?:(?:\w+\s){{0,2}}in\s+)?|in\s+){_MONEY_WORDS}{_SCALE_WORD}", re.IGNORECASE
)

_SHARES = ("percent", "basis_points")
_ASKS_PERCENT = re.compile(r"%|\bper\s?cent", re.IGNORECASE)
_ASKS_SHARE = re.compile(r"%|\bper\s?cent|\b(?:margin|rate|growth|yield)\b", re.IGNORECASE)

# The name of a figure or a choice, not a statement about its sign: "profit or loss", "income (loss)", "gain/loss".
_NO_SIGN = re.compile(
    r"\b\w+\s?(?:\bor\b|\band\b|/)\s?(?:\w+ )?(?:loss(?:es)?|decreas\w+|declin\w+)\b"
    r"|\(loss(?:es)?\)|\bloss(?:es)? or\b",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(
    r"(?<!Inc)(?<!Co)(?<!Corp)(?<!Ltd)[.;\n]\s|,\s(?!Inc|Co|Ltd|LLC)|\b(?:but|while|whereas|although|and|compared)\b",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(r"\b(?:loss(?:es)?|negative|minus|deficit|outflow|used)\b", re.IGNORECASE)
_LOSS = re.compile(r"\b(?:loss(?:es)?|lost|deficit|outflow|in the red)\b", re.IGNORECASE)
_LOSS_AFTER = re.compile(r"[\s(]*(?:loss(?:es)?|deficit|outflow)\b", re.IGNORECASE)
_RISE = re.compile(
    r"\b(?:rose|ris(?:e|en|es|ing)|grew|grow\w*|increas\w+|gain\w*|up|improv\w+|climb\w*|expan\w+|profit\w*)\b",
    re.IGNORECASE,
)
_MINUS_WORD = re.compile(r"\b(?:negative|minus)\s+$", re.IGNORECASE)
_FALL = re.compile(
    r"\b(?:decreas\w+|declin\w+|fell|fall\w*|drop(?:s|ped)?|reduc\w+|down|lower\w*|contract(?:ed|s|ing|ion)"
    r"|shr[aiu]nk\w*"
    r"|sl(?:id|ides?|ump\w*|ip(?:s|ped))|plung\w+|plummet\w*|tumbl\w+|sank|sunk|dip(?:s|ped)|worsen\w*|weaken\w*"
    r"|los[et]"
    r"|diminish\w*|deteriorat\w+|retreat\w*|less|smaller|erod\w+|crater\w*|off|below)\b",
    re.IGNORECASE,
)
_FALL_AFTER = re.compile(
    r"\s*(?:[\w-]+\s){0,2}(?:decrease|decline|drop|fall|reduction|lower|contraction|slump|dip|less|loss|smaller)\b",
    re.IGNORECASE,
)
# "fell to 5%" gives the level that was reached, and no fall of 5%.
_LEVEL = re.compile(r"\b(?:to|at)\s+(?:(?:about|approximately|around|roughly|only|just)\s+)?$", re.IGNORECASE)
_ASKS_RESULT = re.compile(r"\b(?:income|profit|earnings|margin|EBIT\w*|results?|return|gain|EPS)\b", re.IGNORECASE)
_ASKS_CHANGE = re.compile(
    r"\b(?:chang\w+|grow\w*|grew|increas\w+|difference|rise|rose|risen|up|improv\w+|expan\w+|gain\w*|climb\w*)\b",
    re.IGNORECASE,
)
_ASKS_LOSS = re.compile(
    r"\b(?:net|operating|gross|pre-?tax|total|the) loss(?:es)?\b|\bloss(?:es)? (?:of|per|before|from|for|on)\b"
    r"|\bhow much\b[^?.]{0,80}\b(?:declin|decreas|drop|fell|fall|reduc)"
    r"|\b(?:decrease|decline|drop|fall|reduction|outflow|deficit) (?:in|of|from)\b",
    re.IGNORECASE,
)
_ASKS_PAYMENT = re.compile(
    r"\b(?:capex|(?:capital )?expenditures?|spen[dt]\w*|purchas\w+|pay|paid|payments?|dividends?|repurchas\w+|buybacks?"
    r"|costs?|expenses?|used)\b",
    re.IGNORECASE,
)


# What may stand beside a number and change what it counts: units of measure, scales that are not read, currencies.
_MEASURE = (
    r"k?m|cm|mm|µm|miles?|mi|feet|foot|ft|inch(?:es)?|yards?|k?g|mg|tonnes?|tons?|lbs?|ounces?|oz|pounds?|lit(?:er"
    r"|re)s?"
    r"|ml|gallons?|°\s?[CF]|celsius|fahrenheit|kelvin|seconds?|minutes?|hours?|days?|weeks?|months?|quarters?"
    r"|[kMGT]?W|k?Wh|[kMGT]?Hz"
    r"|[KMGT]B|calories|kcal|joules?|volts?|amps?"
)
_UNREAD_SCALE = (
    r"billionen|billones|millones|milliards?|milliarden|quadrillion|mil"
    r"|score|pairs?|gross|per mille|per thousand|percentile"
)
_ADJECTIVES = (
    r"canadian|australian|mexican|swedish|norwegian|danish|hong kong|singapore|new zealand|brazilian|argentine"
    r"|chilean|colombian"
    r"|swiss|indian|pakistani|japanese|chinese|turkish|russian|british|egyptian|CAD|AUD|MXN|SEK|NOK|DKK|HKD|SGD|NZD"
    r"|BRL|ARS|CHF"
    r"|INR|JPY|CNY|RMB|GBP|EUR|USD|Rs\.?|Rp|kr\.?|Fr\.?|pounds?|pesos?|kron(?:er|or|a|e)|rand|euros?|yen|rupees?"
)
_BEHIND = re.compile(rf"[\s*_)]*(?:\(?(?:in\s)?)?({_MEASURE}|{_UNREAD_SCALE}|{_ADJECTIVES})(?![\w'])", re.IGNORECASE)
_BEFORE = re.compile(rf"(?<!\w)({_ADJECTIVES})\s?$", re.IGNORECASE)


def has_other_unit(number: Number, question: str, gold: str, answer: str) -> bool:
    """Whether a unit, a scale or a currency stands beside the number that neither question nor gold has."""
    start, end = number.span
    written = re.search(r"[A-Za-zµ°²³]+$", answer[start:end])
    found = [_BEFORE.search(answer[max(0, start - _NEAR) : start]), _BEHIND.match(answer, end)]
    words = [match[1].lower() for match in found if match]
    if written and number.unit == "plain" and number.scale is None:
        words.append(written[0].lower())
    known = f"{question} {gold}".lower()
    return any(not re.search(rf"(?<![a-z]){re.escape(word.rstrip('s.'))}", known) for word in words)


def in_unit_of(gold: Number, number: Number, question: str, answer: str) -> list[float]:
    """The values that the number may have in the gold's unit, each as good a reading as the other.

    Empty where the two cannot be brought to one unit: an amount of money and a percentage, dollars and euros.
    """
    if gold.currency and number.currency and gold.currency != number.currency:
        return []
    if gold.unit in _SHARES or number.unit in _SHARES:
        values = _share_values(gold, number, question)
    elif {gold.unit, number.unit} == {"money", "multiple"}:
        return []
    else:
        values = _scaled_values(gold, number, question, answer)
    return [sign * value for value in values for sign in _signs(gold, number, question, answer)]


def named_scale(text: str) -> float | None:
    """The scale of "in USD millions", "(in thousands)"; None where none is named."""
    match = _NAMED_SCALE.search(text)
    return SCALES[next(word for word in match.groups() if word).lower()] if match else None


def _scaled_values(gold: Number, number: Number, question: str, answer: str) -> list[float]:
    requested = named_scale(question)
    gold_scale = gold.scale or requested
    scales = _scales(number, requested, answer, gold_scale is None)
    return [number.value * scale / (gold_scale or 1.0) for scale in sorted(scales)]


def _scales(number: Number, requested: float | None, answer: str, counts_full_units: bool) -> set[float]:
    """What the number may be multiplied by: as written with it or beside it, else as question and answer name it."""
    if number.scale:
        return {number.scale}
    if beside := _SCALE_BESIDE.match(answer, number.span[1]):
        return {SCALES[beside[1].lower()]}
    named = named_scale(answer)
    scales = {scale for scale in (requested, named) if scale}
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
        is_percentage = asked.search(question) is not None
        return [percentage / 100, percentage] if is_percentage else [percentage / 100]
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
