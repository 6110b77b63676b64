"""Values of a settings file with one changed, by its dotted name."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any


def with_value(values: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    """The same values with another one at a dotted name."""
    changed = copy.deepcopy(dict(values))
    section, key = _place(changed, name)
    section[key] = value
    return changed


def without_key(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The same values without a key, which may be one of a section that is not there."""
    changed = copy.deepcopy(dict(values))
    section, key = _place(changed, name)
    section.pop(key, None)
    return changed


def _place(values: dict[str, Any], name: str) -> tuple[dict[str, Any], str]:
    *sections, key = name.split(".")
    for section in sections:
        values = values[section]
    return values, key
