"""What one option may hold, and how its text becomes a value.

A `Rule` annotates a field of `Settings`; `whole`, `real`, `text` and `file` make them.  Beyond its rule an option
obeys its type: a `Literal` holds one of its words, and a `Path` is never empty.
"""

from __future__ import annotations

import math
import re
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from orchestrator.settings.kconfig import meant

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)

Value = str | int | float | bool | Path | None


@dataclass(frozen=True)
class Rule:
    """The bounds of one option.

    `sentinel` is the text that says "not set yet"; such an option has no default.  `needed_when` names the option and
    the word that make it needed; without it, it always is.  `above` excludes `low` itself.
    """

    low: float | None = None
    high: float | None = None
    above: bool = False
    unit: str = ""
    filled: bool = False
    is_file: bool = False
    sentinel: str | None = None
    needed_when: tuple[str, str] | None = None

    def bounds(self) -> str:
        """The bounds in words; "" when there are none."""
        if self.low is None or self.high is None:
            return ""
        return f"{'above ' if self.above else ''}{self.low:.0f} to {self.high:.0f}"


def whole(low: int, high: int, unit: str, *, unset: bool = False, needed_when: tuple[str, str] | None = None) -> Rule:
    """A whole number of `unit`; `unset` when it has no default."""
    return Rule(low, high, unit=unit, sentinel="-1" if unset else None, needed_when=needed_when)


def real(low: float, high: float, unit: str, *, above: bool = False, unset: bool = False) -> Rule:
    """A finite number of `unit`, a string in Kconfig; `unset` when it has no default."""
    return Rule(low, high, above, unit, sentinel="" if unset else None)


def text(*, filled: bool = False, unset: bool = False) -> Rule:
    """A string or a word of a `Literal`; `filled` when it may not be empty."""
    return Rule(filled=filled, sentinel="" if unset else None)


def file(*, unset: bool = False) -> Rule:
    """The path of a file that must be there."""
    return Rule(is_file=True, sentinel="" if unset else None)


def read_value(kind: Any, rule: Rule, typed: str) -> Value:
    """The value of an option of type `kind` from its typed text (see `text.py`).

    Raises: ValueError, saying in one line what is wrong.
    """
    if typed == rule.sentinel:
        if rule.needed_when is None:
            raise ValueError("is not set, and has no default")
        return -1
    if kind is bool:
        return _read_switch(typed)
    if kind is int:
        return _read_whole(rule, typed)
    if kind is float:
        return _read_real(rule, typed)
    return _read_text(kind, rule, meant(typed))


def _read_switch(typed: str) -> bool:
    if typed not in ("y", "n"):
        raise ValueError(f"{short(typed)} is neither y nor n")
    return typed == "y"


def _read_whole(rule: Rule, typed: str) -> int:
    if not _WHOLE.fullmatch(typed):
        raise ValueError(f"{short(typed)} is not a whole number ({rule.bounds()})")
    return int(_within(rule, typed, int(typed)))


def _read_real(rule: Rule, typed: str) -> float:
    if typed.lstrip("+-").lower() in ("inf", "infinity", "nan"):
        raise ValueError(f"{short(typed)} is not finite")
    if not _FLOAT.fullmatch(typed):
        raise ValueError(f"{short(typed)} is not a number ({rule.bounds()})")
    if not math.isfinite(float(typed)):
        raise ValueError(f"{short(typed)} is not finite")
    return _within(rule, typed, float(typed))


def _within(rule: Rule, typed: str, value: float) -> float:
    assert rule.low is not None and rule.high is not None
    if not rule.low <= value <= rule.high or (rule.above and value == rule.low):
        raise ValueError(f"{short(typed)} is out of range ({rule.bounds()})")
    return value


def _read_text(kind: Any, rule: Rule, value: str) -> Value:
    if not value.isprintable() and any(0xD800 <= ord(character) <= 0xDFFF for character in value):
        raise ValueError(f"{short(value)} is not UTF-8")
    if get_origin(kind) is Literal:
        words = get_args(kind)
        if value not in words:
            raise ValueError(f"{short(value)} is not one of: {', '.join(words)}")
        return value
    if kind is str:
        if rule.filled and not value.strip():
            raise ValueError("is empty")
        return value
    return _read_path(kind, rule, value)


def _read_path(kind: Any, rule: Rule, value: str) -> Path | None:
    if not value:
        if isinstance(kind, types.UnionType):
            return None
        raise ValueError("is empty")
    path = Path(value)
    try:
        if rule.is_file and not path.is_file():
            raise ValueError(f"{short(value)} is {'not a file' if path.exists() else 'not there'}")
    except OSError as error:  # a name that no file system takes
        raise ValueError(f"{short(value)} is not a file: {error.strerror}") from None
    if "\0" in value:
        raise ValueError(f"{short(value)} is no path")
    return path


def short(value: str) -> str:
    """`value` in quotes on one line, cut to what a person reads."""
    return repr(value if len(value) <= 80 else value[:77] + "...")
