"""What the text of one option may be.

The type of an option is `Annotated` with a `Rule` from `int_range`, `float_range`, `string` or `existing_file`, and
with checks of `checks`.  Pydantic applies them.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

from annotated_types import Ge, GroupedMetadata, Gt, Le
from pydantic import AfterValidator, BeforeValidator, TypeAdapter, ValidationError, WrapValidator

from orchestrator.settings.kconfig import decoded
from tasks.escape import quote
from tasks.limits import OPTION_CHARACTERS

Value = str | int | float | bool | Path | None

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


@dataclass(frozen=True)
class Rule(GroupedMetadata):
    """The constraints of one option, for pydantic (by iteration), and what its documentation states.

    `sentinel` is the text of an option that is not set; such an option has no default.  `needed_when` names the option
    and the value that make it necessary; without it, the option is always necessary.  `above` excludes `low` itself.
    """

    constraints: tuple[Any, ...] = ()
    low: float | None = None
    high: float | None = None
    above: bool = False
    unit: str = ""
    sentinel: str | None = None
    needed_when: tuple[str, str] | None = None

    def __iter__(self) -> Iterator[Any]:
        return iter(self.constraints)

    def bounds(self) -> str:
        """The bounds as text; "" when there are none."""
        if self.low is None or self.high is None:
            return ""
        return f"{'above ' if self.above else ''}{self.low:.0f} to {self.high:.0f}"


def _none_if_empty(text: str, parse: Callable[[str], Any]) -> Any:
    return parse(text) if text else None


EMPTY_IS_NONE = WrapValidator(_none_if_empty)
"""For a type that allows None: an empty text leaves the option out, and other constraints do not apply to it."""


def int_range(
    low: int, high: int, unit: str, *, unset: bool = False, needed_when: tuple[str, str] | None = None
) -> Rule:
    """An integer from `low` to `high`; `unset` when it has no default."""
    bounds = f"{low} to {high}"

    def parse(text: str) -> int:
        if not _WHOLE.fullmatch(text):
            raise ValueError(f"{quote(text)} is not a whole number ({bounds})")
        return int(text)

    constraints = (BeforeValidator(parse), Ge(low), Le(high))
    return Rule(constraints, low, high, unit=unit, sentinel="-1" if unset else None, needed_when=needed_when)


def float_range(low: float, high: float, unit: str, *, above: bool = False, unset: bool = False) -> Rule:
    """A finite number from `low` to `high`, a string in Kconfig; `unset` when it has no default."""
    lowest = Gt(low) if above else Ge(low)

    def parse(text: str) -> float:
        if text.lstrip("+-").lower() in ("inf", "infinity", "nan"):
            raise ValueError(f"{quote(text)} is not finite")
        if not _FLOAT.fullmatch(text):
            raise ValueError(f"{quote(text)} is not a number ({rule.bounds()})")
        if not math.isfinite(float(text)):
            raise ValueError(f"{quote(text)} is not finite")
        return float(text)

    rule = Rule((BeforeValidator(parse), lowest, Le(high)), low, high, above, unit, sentinel="" if unset else None)
    return rule


def string(*, unset: bool = False) -> Rule:
    """A string or one of the values of a `Literal` that may not be empty; `unset` when it has no default."""
    return Rule((BeforeValidator(_filled),), sentinel="" if unset else None)


def existing_file(*, unset: bool = False, or_words: tuple[Path, ...] = ()) -> Rule:
    """The path of a file that exists, or one of `or_words`; None for an empty text where the type allows None."""

    def check(path: Path | None) -> Path | None:
        return path if path in or_words else _file(path)

    return Rule((BeforeValidator(lambda text: text or None), AfterValidator(check)), sentinel="" if unset else None)


def existing_path() -> Rule:
    """The path of a file or folder that exists."""
    return Rule((BeforeValidator(lambda text: text or None), AfterValidator(_exists)))


def read_value(annotation: Any, rule: Rule, typed: str) -> Value:
    """The value of an option of type `annotation` from the text that a person types into menuconfig.

    Raises: ValueError with a message of one line.
    """
    if typed == rule.sentinel:
        if rule.needed_when is None:
            raise ValueError("is not set, and has no default")
        return -1
    if len(typed) > OPTION_CHARACTERS:
        raise ValueError(f"is longer than {OPTION_CHARACTERS:,} characters")
    kind = get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation
    text = typed if kind in (bool, int, float) else decoded(typed)
    try:
        value: Value = _adapter(annotation).validate_python(text)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        match detail["type"]:
            case "value_error":
                reason = str(detail["ctx"]["error"])
            case "literal_error":
                reason = f"{quote(text)} is not one of: {', '.join(get_args(kind))}"
            case "string_unicode":
                reason = f"{quote(text)} is not UTF-8"
            case "path_type":
                reason = "is empty"
            case _:
                reason = f"{quote(typed)} is out of range ({rule.bounds()})"
        raise ValueError(reason) from None
    return value


@functools.cache
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


def _switch(text: str) -> bool:
    if text not in ("y", "n"):
        raise ValueError(f"{quote(text)} is neither y nor n")
    return text == "y"


def _file(path: Path | None) -> Path | None:
    try:
        if path is not None and not path.is_file():
            raise ValueError(f"{quote(str(path))} {'is not a file' if path.exists() else 'does not exist'}")
    except OSError as error:  # for example a name that is too long
        raise ValueError(f"{quote(str(path))} is not a file: {error.strerror}") from None
    return path


def _exists(path: Path) -> Path:
    return path if path.is_dir() else _file(path) or path


def _folder(path: Path) -> Path:
    if "\0" in str(path):
        raise ValueError(f"{quote(str(path))} is not a path")
    return path


Switch = Annotated[bool, BeforeValidator(_switch)]
"""`y` or `n`."""

FolderPath = Annotated[Path, BeforeValidator(_filled), AfterValidator(_folder)]
"""A folder, which need not exist."""
