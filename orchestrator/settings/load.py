"""From a `.config` and overrides to `Settings`, or to a list of everything that is wrong; and back to a `.config`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import kconfiglib

from orchestrator.settings.checks import CHECKS
from orchestrator.settings.kconfig import (
    PREFIX,
    Problems,
    default_values,
    escaped,
    read_assignments,
    read_overrides,
)
from orchestrator.settings.options import Option, Settings, SettingsError, options
from tasks.common.files import FileTooLarge, read_limited, write_atomic
from tasks.common.validation import SETTINGS_BYTES


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
    values: dict[str, Any] = {}
    for option in options():
        if PREFIX + option.name in problems:
            continue
        try:
            values[option.field] = option.read(typed[option.name])
        except ValueError as error:
            problems[PREFIX + option.name] = str(error)
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
    return escaped(str(value))


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
        hint = (
            "; `orchestrator init` or `make menuconfig` writes one, and configs/ has complete ones"
            if not config.exists()
            else ""
        )
        raise SettingsError([f"{config}: cannot be read: {error.strerror or error}{hint}"]) from error


def _in_order(problems: Problems) -> list[str]:
    """One line for each problem: first those of no option, then the options as in Kconfig, then unknown options."""
    place = {PREFIX + option.name: number for number, option in enumerate(options())}

    def rank(name: str) -> int:
        return place.get(name, len(place) if name.startswith(PREFIX) else -1)

    return [f"{name}: {problems[name]}" for name in sorted(problems, key=rank)]
