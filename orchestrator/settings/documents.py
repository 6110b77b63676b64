"""From a YAML or JSON file to frozen dataclasses, or to a list of everything that is wrong in it.

A document is a frozen dataclass whose fields are values or other documents; pydantic checks it.  Use pydantic's strict
types for its values (`StrictInt`, `StrictFloat`, `StrictBool`) and `Text` for its texts, so that `"3"` is no number.
Every key of the file must be a field, and every field without a default must be a key.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import (
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)  # fmt: skip
from pydantic_core import ErrorDetails

from orchestrator.settings import SettingsError
from tasks.common.files import FileTooLarge, read_limited
from tasks.common.text import quote
from tasks.common.validation import SETTINGS_BYTES, fault_of, unrepeated

T = TypeVar("T", bound="Document")

CrossCheck = Callable[[Mapping[str, Any]], Iterable[tuple[str, str]]]
"""Gets the sound values by dotted name (some may be missing) and yields names and what is wrong with them."""

Text = Annotated[StrictStr, StringConstraints(pattern=r"\S")]
"""A string that is not blank."""
Count = Annotated[StrictInt, Field(ge=1)]
Natural = Annotated[StrictInt, Field(ge=0)]
Temperature = Annotated[StrictFloat, Field(ge=0)]
Share = Annotated[StrictFloat, Field(gt=0, le=1)]
Ratio = Annotated[StrictFloat, Field(ge=0, le=1)]

YAML_NUMBER = " (YAML reads 1e-3 as text and 1.0e-3 as a number)"


class Document:
    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)


def read_document(path: Path, kind: type[T], cross_checks: Sequence[CrossCheck] = ()) -> T:
    return parse_document(read_mapping(path), kind, cross_checks)


def read_text(path: Path, hint: str = "") -> str:
    """The text of a file of settings; `hint` follows an error of the system."""
    try:
        return read_limited(path, SETTINGS_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        reason = "is not UTF-8 text"
    except FileTooLarge as error:
        reason = str(error)
    except OSError as error:
        reason = f"cannot be read: {error.strerror}{'' if path.exists() else hint}"
    raise SettingsError([f"{path}: {reason}"])


def read_mapping(path: Path) -> dict[str, Any]:
    """The keys and values in a file, which is JSON when its name ends in .json and YAML otherwise."""
    text, is_json = read_text(path), path.suffix == ".json"
    try:
        values = json.loads(text, object_pairs_hook=unrepeated) if is_json else yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        language = "JSON" if is_json else "YAML"
        raise SettingsError([f"{path}: not {language}: {' '.join(str(error).split())}"]) from None
    if not isinstance(values, dict):
        raise SettingsError([f"{path}: not a mapping of keys to values"])
    return values


def parse_document(values: Mapping[str, Any], kind: type[T], cross_checks: Sequence[CrossCheck] = ()) -> T:
    found: T | None = None
    problems: dict[str, str] = {}
    try:
        found = TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            place = [str(part) if str(part).startswith("[") else shown_key(part) for part in detail["loc"]]
            problems.setdefault(".".join(place), _reason(detail))
    sound = {name: value for name, value in flatten(values).items() if name not in problems}
    for check in cross_checks:
        for name, reason in check(sound):
            problems.setdefault(name, reason)
    if problems or found is None:
        inner = [name for name in problems if not any(other.startswith(f"{name}.") for other in problems)]
        raise SettingsError([f"{name}: {problems[name]}" for name in inner])
    return found


def pop_section(values: dict[Any, Any], name: str, kind: type[T], cross_checks: Sequence[CrossCheck] = ()) -> T:
    """The document in the section `name` of a file, which is taken out of `values`; an absent one has its defaults."""
    section = values.pop(name, {})
    try:
        return parse_document(section if isinstance(section, Mapping) else {}, kind, cross_checks)
    except SettingsError as error:
        raise SettingsError([f"{name}.{problem}" for problem in error.problems]) from None


def override_values(values: dict[Any, Any], overrides: Sequence[str], may_change: Sequence[str]) -> None:
    """Change `values` by each NAME=VALUE.  The name is one of `may_change`, which are dotted, or what is behind the
    last dot of one, where no other setting ends so.
    """
    given: dict[str, str] = {}
    problems: list[str] = []
    for override in overrides:
        said, equals, text = override.partition("=")
        meant = [name for name in {*may_change, *flatten(values)} if said in (name, name.rpartition(".")[2])]
        name = meant[0] if len(meant) == 1 else said
        if not equals:
            problems.append(f"--set {override}: it is NAME=VALUE")
        elif name in given:
            problems.append(f"--set {said}: is set twice, to {quote(given[name])} and to {quote(text)}")
        elif name not in may_change:
            kind = "alters results, so it is another run" if name in flatten(values) else "is not a setting"
            behind = {known.rpartition(".")[2]: known for known in may_change}
            near = difflib.get_close_matches(said.rpartition(".")[2], behind, n=1, cutoff=0.5)
            is_misspelt = near and name not in flatten(values)
            hint = f"did you mean {behind[near[0]]}?" if is_misspelt else f"what may change: {', '.join(may_change)}"
            problems.append(f"--set {said}: it {kind}; {hint}")
        else:
            given[name] = text
            try:
                set_value(values, name, yaml.load(text, Loader=_Loader) if text else "")
            except (yaml.YAMLError, RecursionError, ValueError) as error:
                problems.append(f"--set {said}: {' '.join(str(error).split())}")
    if problems:
        raise SettingsError(problems)


def set_value(values: dict[Any, Any], name: str, value: Any) -> None:
    """Set what has a dotted name; sections that are missing are made."""
    *sections, key = name.split(".")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise SettingsError([f"{section}: {quote(values)} is not a section with keys of its own"])
    values[key] = value


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        flat |= flatten(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return flat


def _reason(detail: ErrorDetails) -> str:
    kind, value = detail["type"], detail["input"]
    if kind == "missing" or (kind == "dataclass_type" and value is None):
        return "is missing"
    if kind == "unexpected_keyword_argument":
        return "is not a key of this file"
    if value is None:
        return "is null"
    if isinstance(value, str | list | dict) and not (value.strip() if isinstance(value, str) else value):
        return "is empty"
    if kind == "dataclass_type":
        return f"{quote(value)} is not a section with keys of its own"
    return fault_of(detail) + (YAML_NUMBER if kind == "float_type" and isinstance(value, str) else "")


def shown_key(key: Any) -> str:
    """A key as in the file if it is a word or a number, quoted otherwise."""
    is_plain = isinstance(key, str) and len(key) < 80 and (key.isidentifier() or key.isdecimal())
    return key if is_plain else quote(key)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """PyYAML's safe loader, which refuses a key that occurs twice."""


def _construct_mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    try:
        unrepeated([(str(key.value), None) for key, _ in node.value])
        loader.flatten_mapping(node)  # what is merged may be in the mapping as well
        return {str(key): value for key, value in loader.construct_pairs(node, deep=True)}
    except (TypeError, ValueError) as error:
        raise yaml.constructor.ConstructorError("", node.start_mark, str(error)) from None


_Loader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)
