"""From a `.config` and overrides to `Settings`, or to a list of everything that is wrong; and back to a `.config`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.settings.checks import CROSS_CHECKS
from orchestrator.settings.fields import Value, read_value
from orchestrator.settings.file_checks import FILE_CHECKS
from orchestrator.settings.kconfig import (
    PREFIX,
    Assignments,
    Kconfig,
    Problems,
    escaped,
    read_assignments,
    read_overrides,
)
from orchestrator.settings.options import Option, Settings, SettingsError, options
from tasks.escape import quote
from tasks.files import FileTooLarge, read_limited, write_atomic
from tasks.limits import SETTINGS_BYTES

_HEADER = "# Settings of Whetstone, complete.\n"


def load_settings(config: Path, overrides: Mapping[str, str] | Sequence[str] = ()) -> Settings:
    """The settings in the file `config`, with the values of `overrides` in place of those in the file.

    An override is NAME=VALUE or CONFIG_NAME=VALUE; the value is what a person types into menuconfig.  An option that
    is in neither has Kconfig's default.  Relative paths start at the working directory.

    Raises: SettingsError with all problems.  Nothing is started and nothing is written.
    """
    kinds = {option.name: option.kind for option in options()}
    assigned, problems = read_assignments(_read(config), kinds)
    overridden, wrong = read_overrides(overrides, kinds)
    for name in overridden:
        problems.pop(PREFIX + name, None)
    problems |= wrong
    assigned |= overridden

    values = _read_values(assigned, _resolve(config, overridden), problems)
    for check in (*CROSS_CHECKS, *FILE_CHECKS):
        for name, problem in check(values):
            problems.setdefault(PREFIX + name, problem)
    if problems:
        raise SettingsError(_in_order(problems))
    fields: dict[str, Any] = dict(values)
    return Settings(**fields)


def write_config(settings: Settings, path: Path) -> None:
    """Write every option to `path` in Kconfig's format; `load_settings(path)` gives equal settings again.

    The file is replaced atomically.  Raises: OSError.
    """
    kconfig = Kconfig()
    for option in options():
        kconfig.syms[option.name].set_value(typed_value(getattr(settings, option.field)))
    write_atomic(path, kconfig.text(_HEADER))


def typed_value(value: Value) -> str:
    """What a person would type into menuconfig for `value`."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "y" if value else "n"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return escaped(str(value))


def _read(config: Path) -> str:
    try:
        return read_limited(config, SETTINGS_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SettingsError([f"{config}: is not UTF-8 text"]) from error
    except FileTooLarge as error:
        raise SettingsError([f"{config}: {error}"]) from error
    except OSError as error:
        hint = (
            "; `orchestrator init` or `make menuconfig` writes one, and configs/ has complete ones"
            if not config.exists()
            else ""
        )
        raise SettingsError([f"{config}: cannot be read: {error.strerror or error}{hint}"]) from error


def _resolve(config: Path, overridden: Assignments) -> Assignments:
    """The values that Kconfig has for the same file and overrides, as typed text."""
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
    value = read_value(option.annotation, option.rule, resolved if assigned is None else assigned)
    # Kconfig replaces a value that it does not accept by the default; for a run this is an error.
    if assigned is not None and assigned != resolved:
        raise ValueError(f"{quote(assigned)} is not accepted by Kconfig, which would use {quote(resolved)}")
    return value


def _in_order(problems: Problems) -> list[str]:
    """One line for each problem: first those of no option, then the options as in Kconfig, then unknown options."""
    place = {PREFIX + option.name: number for number, option in enumerate(options())}
    unknown = len(place)

    def rank(name: str) -> int:
        return place.get(name, unknown if name.startswith(PREFIX) else -1)

    return [f"{name}: {problems[name]}" for name in sorted(problems, key=rank)]
