"""What the arguments of a task may be: its annotations say so, and they are checked before it runs."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, get_type_hints

from celery.exceptions import Ignore
from pydantic import Field, StringConstraints

from tasks.validation import InvalidData, check_value

log = logging.getLogger(__name__)

RunId = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9_-]{1,80}$")]
PlanName = Annotated[str, StringConstraints(pattern="^[a-z][a-z0-9_]{0,39}$")]
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
ContentKey = Annotated[str, StringConstraints(pattern="^[a-z]{1,20}:[0-9a-f]{64}$")]
Hash = Annotated[str, StringConstraints(pattern="^[0-9a-f]{16,64}$")]


def discard(reason: str) -> Ignore:
    """For a task to raise when its message is wrong: the task ends without result or failure."""
    log.warning("dropped a message: %s", reason)
    return Ignore(reason)


def check_arguments(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Whether `function` can be called so, by its parameters and their annotations."""
    hints = get_type_hints(function, include_extras=True)
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise InvalidData(str(error)) from None
    for name, value in bound.arguments.items():
        check_value(hints.get(name, Any), value, name)
