"""Judges and questions that are Python objects, as files that settings name.

A file's name has a hash of its content.  So the same objects give the same settings, and a run can be resumed from the
command line; and of two runs neither changes the other's.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from orchestrator.api.judge_source import JudgeSourceError, judge_module

FOLDER = "from_python"
"""Beside a run's output folder."""
SETS, SPLIT = ("training", "validation", "test"), "split"

JudgeFunction: TypeAlias = Callable[[str, str, str], bool | tuple[bool, str]]
"""From question, gold and answer to whether the answer is right, or that and a sentence why."""
Rows: TypeAlias = Iterable[Mapping[str, Any]]
"""One mapping of columns to values for each question; a pandas or polars DataFrame; a `datasets.Dataset`."""
Questions: TypeAlias = str | PathLike[str] | Rows | Mapping[str, Rows]
"""The path of a file; rows; or rows for "training" and perhaps for "validation" and "test"."""


class InputError(Exception):
    """An object that cannot be used.  The message is one line."""


def judge_settings(judge: str | JudgeFunction, folder: Path) -> dict[str, str]:
    """The settings that name this judge; a function that no worker can import is written into `folder`.

    Raises: InputError, OutputError.
    """
    if isinstance(judge, str):
        return {"JUDGE": judge}
    module, name = getattr(judge, "__module__", None), getattr(judge, "__qualname__", "<")
    if module not in (None, "__main__") and "<" not in name:
        return {"JUDGE": f"{_own_file(judge, module) or module}:{name}"}
    try:
        text = judge_module(judge)
    except JudgeSourceError as error:
        raise InputError(f"judge: {error}") from None
    return {"JUDGE": f"{_keep(text, folder, 'judge', '.py')}:{judge.__name__}"}


def _own_file(judge: JudgeFunction, module: str) -> str | None:
    """The file of the judge's module, if a worker can import it alone: a package's module may import its siblings."""
    try:
        return None if "." in module else inspect.getsourcefile(judge)
    except TypeError:  # written in C
        return None


def data_settings(data: Questions, folder: Path) -> dict[str, str]:
    """The settings that name these questions; rows are written into `folder`.

    Rows that name no split are all for training; other settings may divide them.  Raises: InputError, OutputError.
    """
    if isinstance(data, str | PathLike):
        return {"DATA_PATH": str(Path(data))}
    if isinstance(data, Mapping):
        _check_sets(data)
        rows = [{**row, SPLIT: name} for name, part in data.items() for row in _rows(part)]
        sets = {name: name for name in data}
    else:
        rows, sets = [dict(row) for row in _rows(data)], {"training": "all"}
    chosen = {"DATA_PATH": _keep(_lines(rows), folder, "questions", ".jsonl")}
    if not isinstance(data, Mapping) and any(SPLIT in row for row in rows):
        return chosen
    return {**chosen, **{name.upper(): sets.get(name, "") for name in SETS}}


def _check_sets(data: Mapping[str, Rows]) -> None:
    strange = [name for name in data if name not in SETS]
    if strange or "training" not in data:
        named = f"it has {strange[0]!r}" if "training" in data else "it has no 'training'"
        raise InputError(f"data: {named}; a mapping has rows for 'training', and perhaps for 'validation' and 'test'")


def _rows(data: Any) -> Iterator[Mapping[str, Any]]:
    """The rows of anything that has some."""
    if hasattr(data, "to_dicts"):  # polars
        data = data.to_dicts()
    elif hasattr(data, "iterrows"):  # pandas
        data = data.to_dict("records")
    if isinstance(data, str) or not isinstance(data, Iterable):
        raise InputError(f"data: {data!r:.80} has no rows; each is a mapping of columns to values")
    for number, row in enumerate(data, start=1):
        if not isinstance(row, Mapping):
            raise InputError(f"data: row {number} is a {type(row).__name__}, not a mapping of columns to values")
        yield row


def _lines(rows: Iterable[Mapping[str, Any]]) -> str:
    lines = []
    for number, row in enumerate(rows, start=1):
        try:
            lines.append(json.dumps({str(k): _value(v) for k, v in row.items()}, ensure_ascii=False, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise InputError(f"data: row {number}: {error}") from None
    return "".join(f"{line}\n" for line in lines)


def _value(value: Any) -> Any:
    """A value of a row as JSON has it: numpy's numbers as Python's, and a missing one as null."""
    value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
    return None if isinstance(value, float) and math.isnan(value) else value


def _keep(text: str, folder: Path, stem: str, suffix: str) -> str:
    """Write a text under its hash, unless it is there; returns the path.  Raises: OutputError."""
    # Imported here: this module is light.
    from orchestrator.output import OutputError
    from tasks.files import write_atomic

    path = folder / f"{stem}_{hashlib.sha256(text.encode()).hexdigest()[:16]}{suffix}"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, text)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None
    return str(path)
