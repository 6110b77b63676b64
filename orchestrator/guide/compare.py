"""`guide compare A B`: whether two runs of `guide` came out the same, file by file and field by field.

Equal runs differ in times only: `created_at`, `updated_at`, and the names of snapshots.  A `reflection_id` covers all
settings, also those that alter no result, such as paths; so reflections are compared by their places, and a run's name
not at all.  The journal, the log and the files of the run itself are not compared: they say how a run went, and not how
it came out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.guide.artifacts import without_times
from orchestrator.line_file import load_lines
from orchestrator.output import OutputError, read_json, run_file
from tasks.escape import quote

GUIDANCE, SNAPSHOTS, JOURNAL = "guidance.json", "snapshots", "journal.jsonl"
SHOWN = 20
"""Differences of one file that are told."""


def mission_folders(run: Path) -> dict[str, Path]:
    """The folders of a run's missions by name.  Raises: OutputError when there are none, or it is no guided run."""
    if (kind := run_file(run)["kind"]) != "guide":
        raise OutputError(f"{run} holds a run of {kind!a}, and none of guide")
    found = {path.parent.name: path.parent for path in sorted(run.glob(f"*/{GUIDANCE}"))}
    if not found:
        raise OutputError(f"{run} holds no mission (there is no {GUIDANCE} in a folder of it)")
    return found


def differing_places(first: Path, second: Path) -> list[str]:
    """One line for each difference: mission, file, place, and both values.  Raises: OutputError."""
    here, there = mission_folders(first), mission_folders(second)
    return [
        *(f"{name}: is only in {first}" for name in here if name not in there),
        *(f"{name}: is only in {second}" for name in there if name not in here),
        *(line for name in here if name in there for line in _mission(name, here[name], there[name])),
    ]


def _mission(name: str, first: Path, second: Path) -> Iterator[str]:
    here, there = _Artifacts(first), _Artifacts(second)
    for file in sorted(here.files | there.files):
        if file not in here.files or file not in there.files:
            yield f"{name}/{file}: is only in {(first if file in here.files else second).parent}"
            continue
        found = list(_differences(here.content(file), there.content(file), ""))
        yield from (f"{name}/{file}{line}" for line in found[:SHOWN])
        if len(found) > SHOWN:
            yield f"{name}/{file}: {len(found) - SHOWN} more differences"
    kept, other = here.snapshots(), there.snapshots()
    if kept != other:
        yield f"{name}/{SNAPSHOTS}: {len(kept)} and {len(other)} snapshots, or of other guidance"


class _Artifacts:
    """What a mission's folder holds, in a form in which equal runs are equal."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.files = {
            str(path.relative_to(folder))
            for path in (*folder.glob("*.json*"), *folder.glob("*/*.jsonl"))
            if path.name != JOURNAL and not path.name.startswith(".")
        }
        reflections = self._read("reflection.jsonl") if "reflection.jsonl" in self.files else []
        self._names = {str(line.get("reflection_id")): f"reflection of step {line.get('step')}" for line in reflections}
        if "stats.json" in self.files:
            self._names[str(self._read("stats.json").get("run"))] = "the run"

    def content(self, file: str) -> Any:
        return self._named(without_times(self._read(file)))

    def snapshots(self) -> list[Any]:
        files = sorted((self._folder / SNAPSHOTS).glob("*.json"))
        return [self._named(without_times(read_json(path, dict[str, Any]))) for path in files]

    def _read(self, file: str) -> Any:
        path = self._folder / file
        if path.suffix == ".jsonl":
            return load_lines(path, dict[str, Any], "object", is_whole=True)
        return read_json(path, dict[str, Any])

    def _named(self, value: Any) -> Any:
        """The value with each reflection, and the run, called by their places."""
        if isinstance(value, Mapping):
            return {name: self._named(part) for name, part in value.items()}
        if isinstance(value, list):
            return [self._named(part) for part in value]
        return self._names.get(value, value) if isinstance(value, str) else value


def _differences(first: Any, second: Any, place: str) -> Iterator[str]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for name in sorted(first.keys() | second.keys()):
            inner = f"{place}: {name}" if not place else f"{place}.{name}"
            if name in first and name in second:
                yield from _differences(first[name], second[name], inner)
            else:
                yield f"{inner}: is in one of them only"
    elif _is_list(first) and _is_list(second):
        if len(first) != len(second):
            yield f"{place}: {len(first)} and {len(second)} entries"
        for number, (one, other) in enumerate(zip(first, second, strict=False), start=1):
            inner = f"{place}: line {number}" if not place else f"{place}[{number - 1}]"
            yield from _differences(one, other, inner)
    elif first != second or type(first) is not type(second):
        yield f"{place}: {quote(first)} and {quote(second)}"


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
