"""The assignments of a `.config` as they stand there, before Kconfig replaces what it does not like by a default.

From a `.config` and overrides to `Settings`, or to every reason why not.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.settings.checks import CHECKS
from orchestrator.settings.kconfig import PREFIX, Kconfig, typed_from_quoted
from orchestrator.settings.options import Option, Settings, SettingsError, options
from orchestrator.settings.rules import Value, read_value, short

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


def load_settings(config: Path, overrides: Mapping[str, str] | Sequence[str] = ()) -> Settings:
    """The settings in the file `config`, each of `overrides` put in place of what stands there.

    An override is NAME=VALUE or CONFIG_NAME=VALUE, the value as one types it into menuconfig.  An option that neither
    names has Kconfig's default.  Relative paths start at the working directory.

    Raises: SettingsError with all problems.  Nothing is started and nothing written.
    """
    kinds = {option.name: option.kind for option in options()}
    assigned, problems = read_assignments(_read(config), kinds)
    overridden, wrong = read_overrides(overrides, kinds)
    for name in overridden:
        problems.pop(PREFIX + name, None)
    problems |= wrong
    assigned |= overridden

    values = _read_values(assigned, _resolve(config, overridden), problems)
    for check in CHECKS:
        for name, problem in check(values):
            problems.setdefault(PREFIX + name, problem)
    if problems:
        raise SettingsError(_in_order(problems))
    fields: dict[str, Any] = dict(values)
    return Settings(**fields)


def _read(config: Path) -> str:
    try:
        return config.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SettingsError([f"{config}: is not UTF-8 text"]) from error
    except OSError as error:
        hint = "; `make menuconfig` writes one, and configs/ has complete ones" if not config.exists() else ""
        raise SettingsError([f"{config}: cannot be read: {error.strerror or error}{hint}"]) from error


def _resolve(config: Path, overridden: Assignments) -> Assignments:
    """What Kconfig makes of the same file and overrides: typed text by option."""
    kconfig = Kconfig()
    kconfig.load_config(str(config))
    for name, typed in overridden.items():
        kconfig.syms[name].set_value(typed)
    return {symbol.name: symbol.str_value for symbol in kconfig.unique_defined_syms}


def _read_values(assigned: Assignments, resolved: Assignments, problems: Problems) -> dict[str, Value]:
    """The value of each option that is sound by itself; the others go into `problems`."""
    values: dict[str, Value] = {}
    for option in options():
        if PREFIX + option.name in problems:
            continue
        try:
            values[option.field] = _read_one(option, assigned.get(option.name), resolved[option.name])
        except ValueError as error:
            problems[PREFIX + option.name] = str(error)
    return values


def _read_one(option: Option, assigned: str | None, resolved: str) -> Value:
    value = read_value(option.kind, option.rule, resolved if assigned is None else assigned)
    # Kconfig replaces what it does not accept by the default and goes on; a run must not.
    if assigned is not None and assigned != resolved:
        raise ValueError(f"{short(assigned)} is not accepted by Kconfig, which would use {short(resolved)}")
    return value


def _in_order(problems: Problems) -> list[str]:
    """One line a problem: first what belongs to no option, then the options as Kconfig has them, then unknown ones."""
    place = {PREFIX + option.name: number for number, option in enumerate(options())}
    unknown = len(place)

    def rank(name: str) -> int:
        return place.get(name, unknown if name.startswith(PREFIX) else -1)

    return [f"{name}: {problems[name]}" for name in sorted(problems, key=rank)]
