"""State files: a JSON object that carries the version of its format and a checksum of its content.

    {"version": 1, "generation": 3, ..., "checksum": "9c1185a5c5e9fc54..."}

The checksum is of the values, not of the layout: a file that was only laid out anew is the same.  A file without a
checksum is taken as it is, so that a person can correct or write one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from tasks.context import content_hash
from tasks.validation import InvalidData, checked_json, parse_json

T = TypeVar("T")

VERSION = 1
"""Add 1 when an earlier program would misread what is written now."""


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content between its version and its checksum, in its order.  It has neither of these two names itself."""
    whole = {"version": VERSION, **content}
    return {**whole, "checksum": content_hash(json.loads(json.dumps(whole)))}  # of keys and numbers as they are read


def sealed_text(content: Mapping[str, Any]) -> str:
    """The text of a state file.  Raises: ValueError for a number that is not finite, which JSON does not have."""
    return json.dumps(sealed(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def unsealed(text: bytes | str) -> dict[str, Any]:
    """The content of a state file.

    Raises: InvalidData when it is no JSON object, has been written by a newer program, or has a wrong checksum.
    """
    try:
        whole = json.loads(text, parse_constant=_reject)
    except (ValueError, RecursionError) as error:
        raise InvalidData(f"it is not JSON: {error}") from None
    if not isinstance(whole, dict):
        raise InvalidData("it is not a JSON object")
    version, checksum = whole.get("version", VERSION), whole.pop("checksum", None)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InvalidData("version: it is not a whole number from 1 on")
    if version > VERSION:
        raise InvalidData(
            f"it has version {version} of the format, and this program knows version {VERSION}: use a newer Whetstone"
        )
    if checksum is not None and checksum != content_hash(whole):
        raise InvalidData(
            "its checksum is wrong: it was damaged or edited; restore it from a copy or, if its content is right, "
            'delete its entry "checksum"'
        )
    whole.pop("version", None)
    return whole


def parse_sealed(kind: type[T], text: bytes | str) -> T:
    """The content of a state file as a value of this type.  Raises: InvalidData."""
    return parse_json(kind, _finite(unsealed(text)))


def checked_sealed(kind: Any, text: bytes | str) -> Any:
    """The content of a state file, exactly as it is written there, if that has this type.  Raises: InvalidData."""
    return checked_json(kind, _finite(unsealed(text)))


def _finite(content: Mapping[str, Any]) -> str:
    try:
        return json.dumps(content, allow_nan=False)
    except ValueError:
        raise InvalidData("a number is too large") from None


def _reject(constant: str) -> None:
    raise ValueError(f"{constant} is not a number of JSON")
