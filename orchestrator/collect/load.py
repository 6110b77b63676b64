"""From YAML to `CollectSettings`, or every reason why not, each with the dotted name of its key (section 4.1)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast, get_type_hints

import yaml

from orchestrator.collect.settings import CollectSettings, broken_rules
from orchestrator.settings.options import SettingsError
from tasks.escape import quote

KINDS: Mapping[type, str] = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def read_settings(path: Path) -> CollectSettings:
    """The settings of a file.  Raises: SettingsError with all that is wrong with it, one line a key."""
    try:
        text = path.read_text(encoding="utf-8")
        twice = list(_repeated(yaml.compose(text, Loader=yaml.SafeLoader), ""))
        values = yaml.safe_load(text)
    except OSError as error:
        raise SettingsError([f"{path}: {error.strerror}"]) from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise SettingsError([f"{path}: not YAML: {' '.join(str(error).split())}"]) from None
    if not isinstance(values, dict):
        raise SettingsError([f"{path}: not a mapping of keys to values"])
    if twice:
        raise SettingsError([f"{name}: is there twice" for name in twice])
    return settings_from(values)


def settings_from(values: Mapping[str, Any]) -> CollectSettings:
    """The settings of a mapping.  Raises: SettingsError, as `read_settings`."""
    problems = dict(_problems(CollectSettings, values, ""))
    flat = {name: value for name, value in flatten(values).items() if name not in problems}
    problems |= {name: reason for name, reason in broken_rules(flat).items() if name not in problems}
    if problems:
        raise SettingsError([f"{name}: {reason}" for name, reason in problems.items()])
    return cast(CollectSettings, _build(CollectSettings, values))


def _repeated(node: Any, prefix: str) -> Iterator[str]:
    """The dotted names of keys that come twice: YAML's reader would take the last one without a word."""
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, value in node.value:
        name = f"{prefix}{_named(key.value)}"
        if name in seen:
            yield name
        seen.add(name)
        yield from _repeated(value, f"{name}.")


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Leaves by their dotted names."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        flat |= flatten(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return flat


def key_names(kind: Any = CollectSettings, prefix: str = "") -> list[str]:
    """The dotted name of every key, in the order of the dataclasses."""
    names: list[str] = []
    for key, hint in get_type_hints(kind).items():
        name = f"{prefix}{key}"
        names += key_names(hint, f"{name}.") if dataclasses.is_dataclass(hint) else [name]
    return names


def _problems(kind: Any, values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    hints = get_type_hints(kind)
    for key, hint in hints.items():
        name = f"{prefix}{key}"
        if dataclasses.is_dataclass(hint):
            yield from _section_problems(hint, values, key, name)
        elif key not in values:
            yield name, "is missing"
        elif reason := _unfit(values[key], hint):
            yield name, reason
    for key in values:
        if key not in hints:
            yield f"{prefix}{_named(key)}", "is no key of this file"


def _section_problems(kind: Any, values: Mapping[str, Any], key: str, name: str) -> Iterator[tuple[str, str]]:
    section = values.get(key)
    if isinstance(section, Mapping):
        yield from _problems(kind, section, f"{name}.")
    elif section is None:
        # Whoever left a whole section out wants to know all that belongs there.
        yield from ((leaf, "is missing") for leaf in key_names(kind, f"{name}."))
    else:
        yield name, f"{quote(section)} is not a section with keys of its own"


def _named(key: Any) -> str:
    """A key as it stands in the file, if it is a word."""
    return key if isinstance(key, str) and len(key) < 80 and key.isidentifier() else quote(key)


def _unfit(value: Any, kind: type) -> str | None:
    if value is None:
        return "is null"
    if isinstance(value, str | list | dict) and not (value.strip() if isinstance(value, str) else value):
        return "is empty"
    fits = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    if kind is float:
        fits = isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value)
    if fits:
        return None
    hint = " (YAML reads 1e-3 as text and 1.0e-3 as a number)" if kind is float and isinstance(value, str) else ""
    return f"{quote(value)} is not {KINDS[kind]}{hint}"


def _is_finite(value: int | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _build(kind: Any, values: Mapping[str, Any]) -> Any:
    hints = get_type_hints(kind)
    return kind(**{key: _leaf_or_section(hint, values[key]) for key, hint in hints.items()})


def _leaf_or_section(hint: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(hint):
        return _build(hint, value)
    return float(value) if hint is float else value
