"""The files of one mission: every line fits its JSON schema before it is written, and each file appears whole.

A start that writes again what is there (a run that is resumed goes through its steps anew) leaves the file as it is:
two contents are equal when they differ in times only.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from orchestrator.line_file import json_line, load_lines
from orchestrator.output import read_json, write_output

Kind = Literal["shuffled_data", "rollout", "trajectories", "selections", "reflection", "review", "stats", "guidance"]
Line = Mapping[str, Any]

TIME_FIELDS = frozenset({"created_at", "updated_at"})
"""The fields in which two equal runs differ; the names of snapshots are times as well."""
SUBSET = "http://json-schema.org/draft-07/schema#"  # of JSON Schema that the schemas keep to, and the compiler knows
DATED: frozenset[Kind] = frozenset({"rollout", "trajectories", "reflection", "review"})  # lines with `created_at`
GROWING: tuple[Kind, ...] = ("selections", "reflection", "review")
STATS = "stats.json"


class ArtifactError(Exception):
    """A line that does not fit its schema: an error of this program.  Names the file and the place."""


def artifact_schema(kind: Kind) -> dict[str, Any]:
    """The JSON schema of a file, or of each line of it, as it ships with the project."""
    text = resources.files(__package__).joinpath("schemas", f"{kind}.schema.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


@cache
def _check_of(kind: Kind) -> Callable[[Line], Any]:
    """The schema compiled to Python: a batch has thousands of lines."""
    import fastjsonschema

    check: Callable[[Line], Any] = fastjsonschema.compile({**artifact_schema(kind), "$schema": SUBSET})
    return check


def check_artifact(kind: Kind, value: Line) -> None:
    """Raises: ArtifactError for the first place that does not fit."""
    import fastjsonschema

    try:
        _check_of(kind)(value)
    except fastjsonschema.JsonSchemaValueException as error:
        raise ArtifactError(f"{kind}: {error.message[:300]}") from None


def without_times(value: Any) -> Any:
    """A value of JSON without the fields that hold times, at any depth."""
    if isinstance(value, Mapping):
        return {name: without_times(part) for name, part in value.items() if name not in TIME_FIELDS}
    if isinstance(value, list | tuple):
        return [without_times(part) for part in value]
    return value


def utc_now() -> str:
    """The time as all artifacts write it, with microseconds."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class MissionFolder:
    """The folder of one mission.  Raises: OutputError, OutputNotWritable, ArtifactError."""

    def __init__(self, path: Path, now: Callable[[], str] = utc_now) -> None:
        self.path, self._now = path, now
        self._growing = {kind: _GrowingFile(path / f"{kind}.jsonl") for kind in GROWING}

    def write_lines(self, name: str, kind: Kind, lines: Iterable[Line]) -> None:
        """Write a file whole, such as "step_1/rollout.jsonl", unless it holds these lines already."""
        path, made = self.path / name, self._made(kind, lines)
        if not path.exists() or without_times(_lines_of(path)) != without_times(made):
            write_output(path, b"".join(map(json_line, made)))

    def extend(self, kind: Kind, lines: Iterable[Line]) -> None:
        """Add the lines of one batch to a file that grows with each."""
        self._growing[kind].extend(self._made(kind, lines))

    def lines(self, kind: Kind) -> Sequence[Line]:
        """All that this start has added."""
        return self._growing[kind].lines

    def write_stats(self, stats: Line) -> None:
        """Write `stats.json`, unless it holds these counts, or those of more batches: an earlier start was further."""
        made, path = {**stats, "updated_at": self._now()}, self.path / STATS
        check_artifact("stats", made)
        before = read_json(path, dict[str, Any]) if path.exists() else None
        if before and (without_times(before) == without_times(made) or _is_further(before, made)):
            return
        write_output(path, json.dumps(made, indent=2, ensure_ascii=False, allow_nan=False) + "\n")

    def _made(self, kind: Kind, lines: Iterable[Line]) -> list[dict[str, Any]]:
        """The lines as a reader will find them."""
        dated = {"created_at": self._now()} if kind in DATED else {}
        made: list[dict[str, Any]] = [json.loads(json_line({**line, **dated})) for line in lines]
        for line in made:
            check_artifact(kind, line)
        return made


def _lines_of(path: Path) -> list[dict[str, Any]]:
    """None where there is no file.  Raises: OutputError."""
    return load_lines(path, dict[str, Any], "object", is_whole=True)


def _is_further(before: Line, made: Line) -> bool:
    def place(stats: Line) -> tuple[bool, int]:
        return bool(stats.get("is_finished")), int(stats.get("batches", {}).get("done", 0))

    return place(before) > place(made)


class _GrowingFile:
    """A file to which each batch adds lines, or none; those of an earlier start are kept while they are the same."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before: list[dict[str, Any]] | None = None  # what an earlier start left; None: not yet read
        self.lines: list[dict[str, Any]] = []

    def extend(self, lines: Sequence[dict[str, Any]]) -> None:
        if self._before is None:
            self._before = _lines_of(self._path)
        start, end = len(self.lines), len(self.lines) + len(lines)
        there = self._before[start:end]
        if without_times(there) == without_times(lines) and self._path.exists():
            self.lines += there
            return
        self._before = []
        self.lines += lines
        write_output(self._path, b"".join(map(json_line, self.lines)))
