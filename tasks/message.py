"""What the arguments of a task may be: its annotations say so, and a message is checked before its task runs.

A message is JSON, and every client of the broker can write one.  The types below are for the signatures of tasks.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, get_type_hints

from celery.exceptions import Ignore
from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from tasks.validation import first_error

log = logging.getLogger(__name__)


class MessageRefused(Exception):
    """A message that no worker takes: one line says why."""


def discard(reason: str) -> Ignore:
    """For a task to raise when the store shows that its message is wrong: the task ends without result or failure."""
    log.warning("dropped a message: %s", reason)
    return Ignore(reason)


LONGEST_TEXT = 2000  # characters of a text: longer ones lie in the store, and messages name them
LONGEST_LIST = 100_000
MESSAGE = ConfigDict(strict=True, allow_inf_nan=False, str_max_length=LONGEST_TEXT)

RunId = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9_-]{1,80}$")]
PlanName = Annotated[str, StringConstraints(pattern="^[a-z][a-z0-9_]{0,39}$")]
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
Deltas = Annotated[list[Annotated[float, Field(ge=-1000, le=1000)]], Field(max_length=LONGEST_LIST)]
ContentKey = Annotated[str, StringConstraints(pattern="^[a-z]{1,20}:[0-9a-f]{64}$")]
Hash = Annotated[str, StringConstraints(pattern="^[0-9a-f]{16,64}$")]


def check_arguments(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Whether `function` can be called so, by its parameters and their annotations.

    Raises: MessageRefused, which names the first argument that is wrong; PydanticSchemaGenerationError for an
    annotation that pydantic does not support.
    """
    signature, adapters = _compile(function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise MessageRefused(f"its arguments are wrong: {error}") from None
    for name, value in bound.arguments.items():
        check_part(name, adapters[name], value)


def check_part(name: str, kind: TypeAdapter[Any], value: Any) -> None:
    """Check one part of a message, called `name` in the error.  Raises: MessageRefused."""
    try:
        kind.validate_python(value)
    except ValidationError as error:
        raise MessageRefused(first_error(error, name)) from None


@functools.cache  # building the checks of a function takes a thousand times as long as using them
def _compile(function: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, TypeAdapter[Any]]]:
    signature, hints = inspect.signature(function), get_type_hints(function, include_extras=True)
    return signature, {name: TypeAdapter(hints.get(name, Any), config=MESSAGE) for name in signature.parameters}
