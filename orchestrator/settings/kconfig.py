r"""Kconfig, which says each option's type, range and default; and the reading and writing of a `.config`.

A string has two spellings beside what the program uses:

- typed: what a person types into menuconfig or after `--set NAME=`; a newline is ``\n``, a backslash ``\\``.
- quoted: what is in the file, as Kconfig's own tools write it: the typed text in double quotes, with a backslash before
  each quote and backslash.  A newline is ``\\n`` there; a single ``\n`` is refused, because these tools would read it
  as ``n``.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import kconfiglib

from orchestrator.settings.checks import CHECKS
from orchestrator.settings.options import Option, Settings, SettingsError, options, read_values
from tasks.common.files import FileTooLarge, read_limited, write_atomic
from tasks.common.text import quote
from tasks.common.validation import SETTINGS_BYTES

PREFIX = "CONFIG_"
SPECIFIED = {"FINANCEBENCH_POOL_INDICES": "TRAINING"}
"""The specification's names of options that have another name here; accepted in files and overrides."""

_TYPED = {"\n": r"\n", "\t": r"\t", "\r": r"\r", "\\": "\\\\"}
_QUOTED = re.compile(r'"((?:[^\\"]|\\["\\])*)"')
_ASSIGNED = re.compile(PREFIX + r"(\w+)=(.*)")
_NOT_SET = re.compile("# " + PREFIX + r"(\w+) is not set")
NAMED_LINES = 3  # lines that are not assignments, in an error message

Assignments = dict[str, str]
"""The typed text of options, by name without CONFIG_."""

Problems = dict[str, str]
"""What is wrong, by option or line."""


def load_settings(config: Path, overrides: Mapping[str, str] | Sequence[str] = ()) -> Settings:
    """The settings in the file `config`, with the values of `overrides` in place of those in the file.

    An override is NAME=VALUE or CONFIG_NAME=VALUE; the value is what a person types into menuconfig.  An option that
    is in neither has Kconfig's default.  Relative paths start at the working directory.

    Raises: SettingsError with all problems.  Nothing is started and nothing is written.
    """
    assigned, problems = read_assignments(_read(config))
    overridden, wrong = read_overrides(overrides)
    for name in overridden:
        problems.pop(PREFIX + name, None)
    problems |= wrong
    typed = default_values() | assigned | overridden
    values, wrong = read_values({name: text for name, text in typed.items() if PREFIX + name not in problems})
    problems |= {PREFIX + name: reason for name, reason in (wrong | _out_of_range(values)).items()}
    for check in CHECKS:
        with suppress(KeyError):  # an option that it needs is wrong itself
            for name, problem in check(values):
                problems.setdefault(PREFIX + name, problem)
    if problems:
        raise SettingsError(_in_order(problems))
    return Settings(**values)


def write_config(settings: Settings, path: Path) -> None:
    """Write every option to `path` in Kconfig's format; `load_settings(path)` gives equal settings again."""
    lines = [_line(option, typed_value(getattr(settings, option.field))) for option in options()]
    write_atomic(path, "# Settings of Whetstone, complete.\n" + "".join(lines))


def typed_value(value: Any) -> str:
    """What a person would type into menuconfig for `value`."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "y" if value else "n"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return "".join(_TYPED.get(character, character) for character in str(value))


def _line(option: Option, typed: str) -> str:
    if option.kind is bool and typed == "n":
        return f"# {PREFIX}{option.name} is not set\n"
    written = typed if option.kind in (bool, int) else f'"{kconfiglib.escape(typed)}"'
    return f"{PREFIX}{option.name}={written}\n"


def _read(config: Path) -> str:
    try:
        return read_limited(config, SETTINGS_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SettingsError([f"{config}: is not UTF-8 text"]) from error
    except FileTooLarge as error:
        raise SettingsError([f"{config}: {error}"]) from error
    except OSError as error:
        hint = "" if config.exists() else "; `orchestrator init` or `make menuconfig` writes one, and configs/ has some"
        raise SettingsError([f"{config}: cannot be read: {error.strerror or error}{hint}"]) from error


def _out_of_range(values: Mapping[str, Any]) -> Problems:
    """Kconfig has the ranges of whole numbers."""
    found = {}
    for name, symbol in symbols().items():
        for low, high, _ in symbol.ranges if name.lower() in values else ():
            if not int(low.str_value) <= values[name.lower()] <= int(high.str_value):
                found[name] = f"{values[name.lower()]} is out of range ({low.str_value} to {high.str_value})"
    return found


def _in_order(problems: Problems) -> list[str]:
    """One line for each problem: first those of no option, then the options as in Kconfig, then unknown options."""
    place = {PREFIX + option.name: number for number, option in enumerate(options())}

    def rank(name: str) -> int:
        return place.get(name, len(place) if name.startswith(PREFIX) else -1)

    return [f"{name}: {problems[name]}" for name in sorted(problems, key=rank)]


@functools.cache
def symbols() -> Mapping[str, Any]:
    """The symbol of each option, by name, in the order of Kconfig.

    Kconfig lies at the root of a checkout, or in this folder when installed from a wheel.
    """
    installed = Path(__file__).parent / "Kconfig"
    path = installed if installed.is_file() else Path(__file__).parents[2] / "Kconfig"
    return {symbol.name: symbol for symbol in kconfiglib.Kconfig(str(path), warn=False).unique_defined_syms}


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
    pairs = overrides.items() if isinstance(overrides, Mapping) else [one.partition("=")[::2] for one in overrides]
    bare = () if isinstance(overrides, Mapping) else [one for one in overrides if "=" not in one]
    found: Assignments = {}
    problems: Problems = {}
    for given, value in pairs:
        name = given.strip().removeprefix(PREFIX)
        name = SPECIFIED.get(name, name)
        if given in bare:
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
        if not written or '"' in written:
            raise ValueError(f"{quote(written)} is neither a whole number nor y or n")
        return written
    if (match := _QUOTED.fullmatch(written)) is None:
        raise ValueError(
            f'{quote(written)} must be in double quotes, as in {PREFIX}{name}="...", with \\\\ for each backslash'
        )
    return str(kconfiglib.unescape(match[1]))


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.upper(), symbols(), n=1)
    return "there is no such option" + (f"; did you mean {PREFIX}{near[0]}?" if near else "")
