r"""Kconfig, which says each option's type, range and default; and the spelling of a `.config`.

A string has three spellings:

- decoded: what the program uses; a newline is a newline.
- typed, or escaped: what a person types into menuconfig or after `--set NAME=`; a newline is ``\n``, a backslash
  ``\\``.
- quoted: what is in the file.  Kconfig puts the typed text into double quotes, and a backslash before each quote and
  backslash, so that its own tools write ``\\n``.  A person writes ``\n``, which those tools would read as ``n``; here,
  a backslash that is followed by neither a quote nor a backslash counts as typed.  So no prompt loses its newlines.
"""

from __future__ import annotations

import difflib
import functools
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import kconfiglib

from tasks.common.text import quote

PREFIX = "CONFIG_"
SPECIFIED = {"FINANCEBENCH_POOL_INDICES": "TRAINING"}
"""The specification's names of options that have another name here; accepted in files and overrides."""

_TYPED_TO_DECODED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_DECODED_TO_TYPED = {decoded: "\\" + typed for typed, decoded in _TYPED_TO_DECODED.items()}

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_QUOTED = re.compile(r'"((?:[^\\"]|\\.)*)"')
_STRING_ASSIGNMENT = re.compile(r'^(CONFIG_\w+=)"(.*)"[ \t]*$', re.MULTILINE)
_ASSIGNED = re.compile(PREFIX + r"(\w+)=(.*)")
_NOT_SET = re.compile("# " + PREFIX + r"(\w+) is not set")

NAMED_LINES = 3  # lines that are not assignments, in an error message

Assignments = dict[str, str]
"""The typed text of options, by name without CONFIG_."""

Problems = dict[str, str]
"""What is wrong, by option or line."""


def decoded(typed: str) -> str:
    r"""The string that `typed` stands for; an unknown escape such as ``\d`` stays as it is."""
    return _ESCAPE.sub(lambda match: _TYPED_TO_DECODED.get(match[1], match[0]), typed)


def escaped(string: str) -> str:
    """The typed spelling of a string, on one line; the exact inverse of `decoded`."""
    return "".join(_DECODED_TO_TYPED.get(character, character) for character in string)


def typed_from_quoted(quoted: str) -> str | None:
    """The typed text in a quoted one, or None when `quoted` is not one string in double quotes."""
    match = _QUOTED.fullmatch(quoted)
    return None if match is None else _ESCAPE.sub(r"\1", _double_lone_backslashes(match[1]))


def as_kconfig_writes(config: str) -> str:
    """The text of a whole `.config`, quoted as Kconfig's own tools would have done it."""
    return _STRING_ASSIGNMENT.sub(lambda match: f'{match[1]}"{_double_lone_backslashes(match[2])}"', config)


def _double_lone_backslashes(quoted: str) -> str:
    return _ESCAPE.sub(lambda match: match[0] if match[1] in '\\"' else "\\" + match[0], quoted)


class Kconfig(kconfiglib.Kconfig):  # type: ignore[misc]  # kconfiglib has no types
    r"""`kconfiglib.Kconfig` over this project's options; reads both ``\n`` and ``\\n`` in a string as ``\n``.

    Kconfig lies at the root of a checkout, or in this folder when installed from a wheel.
    """

    def __init__(self, warn: bool = False) -> None:
        installed = Path(__file__).parent / "Kconfig"
        super().__init__(str(installed if installed.is_file() else Path(__file__).parents[2] / "Kconfig"), warn=warn)

    def load_config(self, filename: str | None = None, replace: bool = True, verbose: object = None) -> str:
        """As in kconfiglib, and also where menuconfig's own dialogue loads a file."""
        path = Path(filename or kconfiglib.standard_config_filename())
        if filename is None and not path.exists():
            return str(super().load_config(None, replace))
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, path.name)
            Path(copy).write_text(as_kconfig_writes(path.read_text("utf-8-sig")), "utf-8")
            return str(super().load_config(copy, replace)).replace(copy, str(path))


@functools.cache
def symbols() -> Mapping[str, Any]:
    """The symbol of each option, by name, in the order of Kconfig."""
    return {symbol.name: symbol for symbol in Kconfig().unique_defined_syms}


def default_values() -> Assignments:
    """What each option is where nobody sets it; "" or -1 for one without a default."""
    return {name: symbol.defaults[0][0].str_value for name, symbol in symbols().items()}


def read_assignments(config: str) -> tuple[Assignments, Problems]:
    """The assignments of a `.config`.

    An option that is assigned twice is a problem, although Kconfig takes the last value: nobody knows which one was
    meant.
    """
    found: Assignments = {}
    problems: Problems = {}
    other: Problems = {}
    for number, line in enumerate(config.split("\n"), start=1):
        stripped = line.rstrip()
        match = _ASSIGNED.fullmatch(stripped) or _NOT_SET.fullmatch(stripped)
        if match is None:
            if stripped and not stripped.lstrip().startswith("#"):
                other[f"line {number}"] = f"{quote(stripped)} is not an assignment of the form {PREFIX}NAME=VALUE"
            continue
        name = SPECIFIED.get(match[1], match[1])
        try:
            typed = _typed(name, match[2] if match.re is _ASSIGNED else None)
            if name in found:
                raise ValueError("is given twice")
            found[name] = typed
        except ValueError as error:
            problems[PREFIX + name] = str(error)
    named = dict(list(other.items())[:NAMED_LINES])
    if more := len(other) - len(named):
        named[f"{more} more lines"] = "are not assignments either; is this a .config?"
    return found, named | problems


def read_overrides(overrides: Mapping[str, str] | Sequence[str]) -> tuple[Assignments, Problems]:
    """The assignments of `NAME=VALUE` overrides, with or without CONFIG_; VALUE is typed text.

    An option that is given twice is a problem, also with equal values: one of them would be without effect.
    """
    pairs = overrides.items() if isinstance(overrides, Mapping) else [_split(one) for one in overrides]
    found: Assignments = {}
    problems: Problems = {}
    for given, value in pairs:
        name = given.strip().removeprefix(PREFIX)
        name = SPECIFIED.get(name, name)
        if value is None:
            problems[PREFIX + name] = "has no value; write NAME=VALUE"
        elif name not in symbols():
            problems[PREFIX + name] = _unknown(name)
        elif name in found:
            problems[PREFIX + name] = f"is set twice, to {quote(found[name])} and to {quote(value)}"
        else:
            found[name] = value
    return found, problems


def _typed(name: str, written: str | None) -> str:
    if name not in symbols():
        raise ValueError(_unknown(name))
    kind = symbols()[name].orig_type
    if written is None:
        if kind is not kconfiglib.BOOL:
            raise ValueError('cannot be "not set"; give it a value')
        return "n"
    if kind is not kconfiglib.STRING:
        return written
    typed = typed_from_quoted(written)
    if typed is None:
        raise ValueError(f'{quote(written)} must be in double quotes, as in {PREFIX}{name}="..."')
    return typed


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.upper(), symbols(), n=1)
    return "there is no such option" + (f"; did you mean {PREFIX}{near[0]}?" if near else "")


def _split(override: str) -> tuple[str, str | None]:
    name, equals, value = override.partition("=")
    return name, value if equals else None
