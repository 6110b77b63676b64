"""Data from outside becomes checked values: pydantic checks it, and an error is one line that names the place."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar, cast

from annotated_types import Ge, Le, Lt, MaxLen
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from tasks.common.text import escape_control, quote, shorten

T = TypeVar("T")

# The limits of what comes from outside, checked where it enters: far above what a run needs, and far below what would
# exhaust a process.
MIB = 2**20

# Replies over HTTP, bytes of the body.
REPLY_BYTES = 1 * MIB
"""A reply without the tokens that a model wrote: a report, a list of models, an error."""
MODELS_BYTES = 16 * MIB
"""An endpoint's list of models; a router of many providers lists hundreds."""
REPLY_BYTES_PER_TOKEN = 256
"""Of a generated token in JSON: its text, escaped, and its id.  Most have 5 to 20."""

# What the reflector writes, in characters.
SCRATCHPAD_CHARACTERS = 4_000
"""Of a scratchpad that is inherited; the prompts state it, and of a longer one the last lines are kept."""
LOGGED_CHARACTERS = 1_000_000
"""Of each part of a logged prompt."""

# Questions and rows to judge, bytes of UTF-8.
QUESTION_BYTES = 1_000_000
PAGE_BYTES = 1_000_000
"""Of one page of a document, and of the context of one row that has no pages."""
CONTEXT_BYTES = 4_000_000
"""Of all pages of one question together."""
GOLD_BYTES = 20_000
"""Of a right answer."""
ANSWER_BYTES = 4_000_000
"""Of an answer to be judged: more than the tokens of the longest one allowed."""
NAME_BYTES = 1_000
"""Of an id and of the name of a split or a document."""
ROW_BYTES = 16 * MIB
"""Of one line of a file of rows."""
ROWS = 1_000_000
"""Of one file or folder."""
REPORTED_FAULTS = 50
"""That one error lists; it says how many more there are."""

# Files that are read whole, bytes.
SETTINGS_BYTES = 1 * MIB
"""A `.config`, or a document in YAML or JSON."""
OPTION_CHARACTERS = 100_000
"""The value of one option: a prompt, a template, a command."""
DELTAS_BYTES = 16 * MIB
"""A file of deltas: one vector, or a population."""
SECRET_BYTES = 65_536
"""A file with a key or a password."""
COLLECTED_BYTES = 1024 * MIB
"""The output of a collection."""
CHECKPOINT_BYTES = 64 * MIB
"""How far a training is."""

# What a judge of the user's own returns, characters.
REASONING_CHARACTERS = 20_000

# Vectors.
LARGEST_DELTA = 1_000.0
"""Logits, of either sign: beyond it a token is forced or forbidden anyway, and float16 overflows."""

RunId = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9_-]{1,80}$")]
PlanName = Annotated[str, StringConstraints(pattern="^[a-z][a-z0-9_]{0,39}$")]
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
ContentKey = Annotated[str, StringConstraints(pattern="^[a-z]{1,20}:[0-9a-f]{64}$")]
Hash = Annotated[str, StringConstraints(pattern="^[0-9a-f]{16,64}$")]

Moment = Annotated[float, Ge(0), Lt(1e11)]
"""Seconds of the epoch that a calendar has: up to the year 5138."""

Delta = Annotated[FiniteFloat, Ge(-LARGEST_DELTA), Le(LARGEST_DELTA)]
"""The delta of one cluster in data from outside: what every server takes."""
Scratchpad = Annotated[str, MaxLen(SCRATCHPAD_CHARACTERS)]
"""A scratchpad in data from outside."""

# What pydantic calls an error, and what a person reads.  Numbers in braces are of the constraint.
REASONS: Mapping[str, str] = {
    "missing": "is missing",
    "extra_forbidden": "is not expected",
    "unexpected_keyword_argument": "is not expected",
    "string_type": "{value} is not text",
    "string_pattern_mismatch": "{value} does not match {pattern}",
    "string_too_long": "{value} is longer than {max_length} characters",
    "int_type": "{value} is not a whole number",
    "float_type": "{value} is not a number",
    "finite_number": "{value} is not a finite number",
    "bool_type": "{value} is not true or false",
    "none_required": "{value} is not null",
    "list_type": "{value} is not a list",
    "tuple_type": "{value} is not a list",
    "too_short": "{value} has fewer than {min_length} entries",
    "too_long": "{value} has more than {max_length} entries",
    "dict_type": "{value} is not an object",
    "model_type": "{value} is not an object",
    "dataclass_type": "{value} is not an object",
    "literal_error": "{value} is not {expected}",
    "greater_than": "{value} must be greater than {gt:g}",
    "greater_than_equal": "{value} must be at least {ge:g}",
    "less_than": "{value} must be less than {lt:g}",
    "less_than_equal": "{value} must be at most {le:g}",
    "json_invalid": "it is not JSON: {error}",
    "value_error": "{error}",
}


class ReplyModel(BaseModel):
    """What a reply of a language model must be, and the name of its schema."""

    schema_name: ClassVar[str]
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class InvalidData(ValueError):
    """One line: the place in the data, and what is wrong there."""


def parse_json(kind: type[T], text: str | bytes) -> T:
    """The value of this type that a JSON text holds."""
    try:
        found: T = adapter(cast(Any, kind)).validate_json(text, strict=True)
    except ValidationError as error:
        raise InvalidData(first_error(error)) from None
    return found


def checked_json(kind: Any, text: str | bytes) -> Any:
    """What a JSON text holds, exactly as it is written there, if that has this type.

    For what is written again: a validated copy has its keys in another order, and 1.0 in the place of 1.
    """
    parse_json(kind, text)
    try:
        return json.loads(text)
    except ValueError as error:  # Python reads no integer of thousands of digits
        raise InvalidData(f"it is not JSON: {error}") from None


def unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, as a hook of `json.loads`, which would silently take the last value of a key."""
    found = dict(pairs)
    if len(found) < len(pairs):
        times = Counter(key for key, _ in pairs)
        raise InvalidData(f"{', '.join(quote(key) for key in times if times[key] > 1)} occurs twice")
    return found


def check_value(kind: Any, value: Any, name: str = "") -> Any:
    """A value of this type (any annotation), from what JSON became in Python."""
    try:
        return adapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        raise InvalidData(first_error(error, name)) from None


@cache  # building one takes a thousand times as long as using it
def adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def first_error(error: ValidationError, root: str = "") -> str:
    """The first thing that is wrong, in one line: `population[0].deltas: 'x' is not a number`.

    `root` names the value that was checked, "" for none.
    """
    detail = error.errors(include_url=False)[0]
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in detail["loc"])
    place = shorten(escape_control("".join([root, *parts]).removeprefix(".")))
    return f"{place}: {fault_of(detail)}" if place else fault_of(detail)


def fault_of(detail: ErrorDetails) -> str:
    """What is wrong with one value, without its place."""
    kind, value, context = detail["type"], quote(detail["input"]), detail.get("ctx", {})
    if kind not in REASONS:
        return f"{value}: {detail['msg'][:1].lower()}{detail['msg'][1:]}"
    return REASONS[kind].format(value=value, **context)


def reply_bytes(tokens: int) -> int:
    """The most bytes of a reply with so many generated tokens."""
    return REPLY_BYTES + REPLY_BYTES_PER_TOKEN * tokens
