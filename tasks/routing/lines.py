"""JSONL that a person may write: every object of a file, or every line of it that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from tasks.common.validation import InvalidData, parse_json
from tasks.dataset import malformed

T = TypeVar("T")


def parse_lines(
    text: str,
    name: str,
    kind: type[T],
    unique: Sequence[str],
    faults_of: Callable[[T], Iterable[str]],
) -> list[T]:
    """The objects, in the order of the lines; `name` is that of the file.  Blank lines are passed over.

    unique: fields whose value no earlier line may have; faults_of: what else is wrong with an object.
    """
    found: list[T] = []
    bad: list[str] = []
    seen: dict[tuple[str, Any], int] = {}
    for number, line in enumerate(text.encode().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            one = parse_json(kind, line)
        except InvalidData as error:
            bad.append(f"line {number}: {error}")
            continue
        faults = list(faults_of(one))
        for field in unique:
            earlier = seen.setdefault((field, getattr(one, field)), number)
            if earlier != number:
                faults.append(f"{field} is that of line {earlier}")
        if faults:
            bad.append(f"line {number}: {'; '.join(faults)}")
        found.append(one)
    if bad:
        raise malformed(name, bad)
    return found
