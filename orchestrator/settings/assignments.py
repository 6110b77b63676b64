"""The assignments of a `.config` as they stand there, before Kconfig replaces what it does not like by a default."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from orchestrator.settings.kconfig import PREFIX
from orchestrator.settings.rules import short
from orchestrator.settings.text import typed_from_quoted

_ASSIGNED = re.compile(PREFIX + r"(\w+)=(.*)")
_NOT_SET = re.compile("# " + PREFIX + r"(\w+) is not set")

TOLD = 3  # lines that are no assignments

Assignments = dict[str, str]
Problems = dict[str, str]


def read_assignments(config: str, kinds: Mapping[str, Any]) -> tuple[Assignments, Problems]:
    """The typed text of every option that the `.config` text assigns, and what is wrong, by option or line.

    `kinds` has the type of each option.  Of several assignments to one option the last counts, as in Kconfig.
    """
    found: Assignments = {}
    problems: Problems = {}
    strange: Problems = {}
    for number, line in enumerate(config.split("\n"), start=1):
        stripped = line.rstrip()
        match = _ASSIGNED.fullmatch(stripped) or _NOT_SET.fullmatch(stripped)
        if match is None:
            if stripped and not stripped.lstrip().startswith("#"):
                strange[f"line {number}"] = f"{short(stripped)} is not an assignment of the form {PREFIX}NAME=VALUE"
            continue
        name, written = match[1], match[2] if match.re is _ASSIGNED else None
        problems.pop(PREFIX + name, None)
        found.pop(name, None)
        try:
            found[name] = _typed(name, written, kinds)
        except ValueError as error:
            problems[PREFIX + name] = str(error)
    return found, _first(strange) | problems


def _first(strange: Problems) -> Problems:
    """The first lines that are no assignments, and how many more there are: most likely it is another file."""
    told = dict(list(strange.items())[:TOLD])
    more = len(strange) - len(told)
    return told | ({f"{more} more lines": "are no assignments either; is this a .config?"} if more else {})


def read_overrides(
    overrides: Mapping[str, str] | Sequence[str], kinds: Mapping[str, Any]
) -> tuple[Assignments, Problems]:
    """The same for `NAME=VALUE` overrides, with or without CONFIG_; the value is what one types into menuconfig."""
    pairs = list(overrides.items()) if isinstance(overrides, Mapping) else [_split(one) for one in overrides]
    found: Assignments = {}
    problems: Problems = {}
    for given, value in pairs:
        name = given.strip().removeprefix(PREFIX)
        if value is None:
            problems[PREFIX + name] = "has no value; write NAME=VALUE"
        elif name not in kinds:
            problems[PREFIX + name] = _unknown(name, kinds)
        else:
            found[name] = value
    return found, problems


def _typed(name: str, written: str | None, kinds: Mapping[str, Any]) -> str:
    if name not in kinds:
        raise ValueError(_unknown(name, kinds))
    if kinds[name] is bool:
        return "n" if written is None else written
    if written is None:
        raise ValueError('cannot be "not set"; give it a value')
    if kinds[name] is int:
        return written
    typed = typed_from_quoted(written)
    if typed is None:
        raise ValueError(f'{short(written)} must stand in double quotes, as in {PREFIX}{name}="..."')
    return typed


def _unknown(name: str, names: Collection[str]) -> str:
    near = difflib.get_close_matches(name.upper(), names, n=1)
    return "there is no such option" + (f"; did you mean {PREFIX}{near[0]}?" if near else "")


def _split(override: str) -> tuple[str, str | None]:
    name, equals, value = override.partition("=")
    return name, value if equals else None
