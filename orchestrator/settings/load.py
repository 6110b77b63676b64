"""From a `.config` and overrides to `Settings`, or to every reason why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.settings.assignments import Assignments, Problems, read_assignments, read_overrides
from orchestrator.settings.checks import CHECKS
from orchestrator.settings.errors import SettingsError
from orchestrator.settings.kconfig import PREFIX, Kconfig
from orchestrator.settings.model import Option, Settings, options
from orchestrator.settings.rules import Value, read_value, short


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
