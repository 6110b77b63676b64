"""Data from outside becomes checked values: pydantic checks it, and an error is one line that names the place."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Self, TypeVar, cast

from annotated_types import Ge, Le, Lt, MaxLen
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from tasks.common.text import SCRATCHPAD_CHARACTERS, escape_control, quote, shorten

T = TypeVar("T")

# The limits of what comes from outside, checked where it enters: far above what a run needs, and far below what would
# exhaust a process.  In bytes, where no other unit is given.
MIB = 2**20
REPLY_BYTES = 1 * MIB  # of an HTTP reply without tokens that a model wrote: a report, an error
REPLY_BYTES_PER_TOKEN = 256  # of a generated token in JSON: its text, escaped, and its id; most have 5 to 20
MODELS_BYTES = 16 * MIB  # of an endpoint's list of models; a router of many providers lists hundreds
LOGGED_CHARACTERS = 1_000_000  # of each part of a logged prompt
REASONING_CHARACTERS = 20_000  # of a judge of the user's own

QUESTION_BYTES = 1_000_000
PAGE_BYTES = 1_000_000  # of one page of a document, and of the context of a row that has no pages
CONTEXT_BYTES = 4_000_000  # of all pages of one question together
GOLD_BYTES = 20_000  # of a right answer
ANSWER_BYTES = 4_000_000  # of an answer to be judged: more than the tokens of the longest one allowed
NAME_BYTES = 1_000  # of an id and of the name of a split or a document
ROW_BYTES = 16 * MIB  # of one line of a file of rows
ROWS = 1_000_000  # of one file or folder
REPORTED_FAULTS = 50  # that one error lists; it says how many more there are

SETTINGS_BYTES = 1 * MIB  # of a `.config`, or a document in YAML or JSON
OPTION_CHARACTERS = 100_000  # of the value of one option: a prompt, a template, a command
DELTAS_BYTES = 16 * MIB  # of a file of deltas: one vector, or a population
COLLECTED_BYTES = 1024 * MIB  # of the output of a collection
CHECKPOINT_BYTES = 64 * MIB  # of how far a training is
LARGEST_DELTA = 1_000.0  # logits: beyond it a token is forced or forbidden anyway, and float16 overflows

RunId = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9_-]{1,80}$")]
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]

Moment = Annotated[float, Ge(0), Lt(1e11)]  # seconds of the epoch that a calendar has: up to the year 5138
Delta = Annotated[FiniteFloat, Ge(-LARGEST_DELTA), Le(LARGEST_DELTA)]
Scratchpad = Annotated[str, MaxLen(SCRATCHPAD_CHARACTERS)]


class ReplyModel(BaseModel):
    """What a reply of a language model must be, and the name of its schema."""

    schema_name: ClassVar[str]
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class InvalidData(ValueError):
    """One line: the place in the data, and what is wrong there."""


def parse_json(kind: type[T], text: str | bytes) -> T:
    try:
        found: T = adapter(cast(Any, kind)).validate_json(text, strict=True)
    except ValidationError as error:
        raise InvalidData(first_error(error)) from None
    return found


class JsonRecord:
    """The base of a frozen dataclass that is kept as JSON."""

    def to_json(self) -> str:
        """With all keys in their order: under a grammar a model writes the properties of a job's schema in theirs."""
        return json.dumps(dataclasses.asdict(self))  # type: ignore[call-overload]  # a dataclass

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        return parse_json(cls, text)


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
    try:
        return adapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        raise InvalidData(first_error(error, name)) from None


@lru_cache(maxsize=256)  # building one takes a thousand times as long as using it; a reply can have a model of its own
def adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


UNEXPECTED = ("extra_forbidden", "unexpected_keyword_argument")


def first_error(error: ValidationError, root: str = "") -> str:
    """The first thing that is wrong: `population[0].deltas: 'x' is not a number`; `root` names the checked value.

    Where it is a key that an object lacks, all those that it lacks, and those that it has instead.
    """
    details = error.errors(include_url=False)
    first, *others = details
    place, fault = _place(root, *first["loc"]), fault_of(first)
    beside = [one for one in others if one["loc"][:-1] == first["loc"][:-1]] if first["type"] == "missing" else []
    if lacks := [str(one["loc"][-1]) for one in beside if one["type"] == "missing"]:
        place, fault = ", ".join([place, *lacks]), "are missing"
    if instead := [str(one["loc"][-1]) for one in beside if one["type"] in UNEXPECTED]:
        fault += f"; there is {shorten(escape_control(', '.join(instead)))} instead"
    return f"{place}: {fault}" if place else fault


def _place(root: str, *loc: int | str) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return shorten(escape_control("".join([root, *parts]).removeprefix(".")))


def fault_of(detail: ErrorDetails) -> str:
    kind, said, value = detail["type"], detail["msg"], quote(detail["input"])
    match kind:
        case "missing":
            return "is missing"
        case _ if kind in UNEXPECTED:
            return "is not expected"
        case "value_error" | "json_invalid":
            return ("it is not JSON: " if kind == "json_invalid" else "") + str(detail["ctx"]["error"])
    if said.startswith("Input should be "):
        return f"{value} is not {said.removeprefix('Input should be ')}"
    return f"{value}: {said[:1].lower()}{said[1:]}"


def reply_bytes(tokens: int) -> int:
    return REPLY_BYTES + REPLY_BYTES_PER_TOKEN * tokens
