"""What the arguments of a task may be: told by its annotations, and checked before it runs.

A message is JSON, and whoever reaches the broker can write one.  The words below are for the signatures of tasks.

Whether a value that was read from JSON has the shape that it should have.
"""

from __future__ import annotations

import functools
import inspect
import logging
import math
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from celery.exceptions import Ignore

from tasks.escape import quote

log = logging.getLogger(__name__)


class Refused(Exception):
    """A message that no worker takes: one line says why."""


def discard(reason: str) -> Ignore:
    """For a task to raise, whose message only the store could tell to be wrong: it ends, and leaves nothing behind."""
    log.warning("dropped a message: %s", reason)
    return Ignore(reason)


@dataclass(frozen=True)
class Pattern:
    """A text that is this pattern from its beginning to its end."""

    pattern: str


@dataclass(frozen=True)
class Range:
    """A number from `low` to `high`."""

    low: float
    high: float


RunId = Annotated[str, Pattern("[A-Za-z0-9_-]{1,80}")]
PlanName = Annotated[str, Pattern("g[0-9]{1,9}_(pop|child)|final")]
Count = Annotated[int, Range(0, 1_000_000_000)]
Delta = Annotated[float, Range(-1000, 1000)]
ContentKey = Annotated[str, Pattern("[a-z]{1,20}:[0-9a-f]{64}")]
Hash = Annotated[str, Pattern("[0-9a-f]{16,64}")]
LONGEST_TEXT = 2000  # characters of any other text: texts lie in the store, and messages only name them
LONGEST_LIST = 100_000


def check_arguments(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Whether `function` can be called so, by its parameters and their annotations.

    Raises: Refused, which names the first argument that is wrong; TypeError for an annotation that is not known here.
    """
    signature, checkers = _described(function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise Refused(f"its arguments are wrong: {error}") from None
    for name, value in bound.arguments.items():
        if name in checkers and (reason := checkers[name](value)):
            raise Refused(f"{name} {reason}")


def wrong(hint: Any, value: Any) -> str | None:
    """Why a value read from JSON is not what the annotation says; None when it is.  Raises: TypeError (unknown)."""
    return checker(hint)(value)


SCALARS: Mapping[Any, tuple[str, tuple[type, ...]]] = {
    str: ("text", (str,)),
    bool: ("true or false", (bool,)),
    int: ("a whole number", (int,)),
    float: ("a finite number", (int, float)),
    type(None): ("null", (type(None),)),
}
Checker = Callable[[Any], str | None]


@functools.cache  # every message is checked, and what an annotation means takes longer to find out than to ask
def checker(hint: Any) -> Checker:
    """`wrong` for one annotation.  Raises: TypeError."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: None
    if origin is Annotated:
        checkers = [checker(parts[0]), *map(_rule, parts[1:])]
        return lambda value: next((reason for check in checkers if (reason := check(value))), None)
    if origin is Literal:
        return lambda value: (
            None if type(value) is str and value in parts else f"is {quote(value)}, none of {list(parts)}"
        )
    if origin in (Union, types.UnionType):
        choices = [checker(part) for part in parts]
        return lambda value: None if any(check(value) is None for check in choices) else choices[0](value)
    return _list_checker(parts, origin is list) if origin in (list, tuple) else _scalarchecker(hint)


def _scalarchecker(hint: Any) -> Checker:
    if hint not in SCALARS:
        raise TypeError(f"arguments cannot be checked against {hint!r}")
    what, kinds = SCALARS[hint]

    def check(value: Any) -> str | None:
        if not isinstance(value, kinds) or (isinstance(value, bool) and hint is not bool):
            return f"is {quote(value)}, not {what}"
        if isinstance(value, float) and not math.isfinite(value):
            return f"is {quote(value)}, not {what}"
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            return f"is {quote(value)}, which is too long"
        return None

    return check


def _list_checker(parts: Sequence[Any], any_length: bool) -> Checker:
    items = [checker(part) for part in parts]

    def check(value: Any) -> str | None:
        if not isinstance(value, list):
            return f"is {quote(value)}, not a list"
        if len(value) > LONGEST_LIST:
            return f"is {quote(value)}, which is too long"
        if not any_length and len(value) != len(items):
            return f"is {quote(value)}, not a list of {len(items)}"
        checks = items * len(value) if any_length else items
        reasons = ((place, check(item)) for place, (check, item) in enumerate(zip(checks, value, strict=True)))
        return next((f"[{place}] {reason}" for place, reason in reasons if reason), None)

    return check


def _rule(rule: Any) -> Checker:
    if isinstance(rule, Pattern):
        matches = re.compile(rule.pattern).fullmatch
        return lambda value: None if matches(value) else f"is {quote(value)}, which is not {rule.pattern}"
    if isinstance(rule, Range):
        told = f"not between {rule.low:g} and {rule.high:g}"
        return lambda value: None if rule.low <= value <= rule.high else f"is {quote(value)}, {told}"
    return lambda value: None


@functools.cache
def _described(function: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, Checker]]:
    hints = get_type_hints(function, include_extras=True)
    return inspect.signature(function), {name: checker(hint) for name, hint in hints.items() if name != "return"}


Shape = type | tuple[type, ...] | list[Any] | Mapping[str, Any]
"""A type or several; a list of one shape, for lists of any length; or the shapes of an object's members."""

NUMBER = (int, float)
PERHAPS_NUMBER = (int, float, NoneType)
NAMES: Mapping[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
    NoneType: "null",
}


def shape_error(shape: Shape, value: Any, place: str = "it") -> str | None:
    """The first place where a value has another shape; None where it has this one."""
    if isinstance(shape, Mapping):
        if not isinstance(value, dict):
            return f"{place} is {quote(value)}, not an object"
        missing = [f"{place} has no {name}" for name in shape if name not in value]
        wrong = (shape_error(part, value[name], f"{place}.{name}") for name, part in shape.items() if name in value)
        return next((reason for reason in (*missing, *wrong) if reason), None)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{place} is {quote(value)}, not a list"
        reasons = (shape_error(shape[0], item, f"{place}[{number}]") for number, item in enumerate(value))
        return next((reason for reason in reasons if reason), None)
    kinds: Sequence[type] = shape if isinstance(shape, tuple) else (shape,)
    if not isinstance(value, tuple(kinds)) or (isinstance(value, bool) and bool not in kinds):
        return f"{place} is {quote(value)}, not {' or '.join(dict.fromkeys(NAMES[kind] for kind in kinds))}"
    return None
