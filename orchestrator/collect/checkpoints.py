"""The two checkpoint files of a collection: one JSON object for each example, appended and synced to disk at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from orchestrator.runs.lines import append_lines, load_lines

VERBOSE, PAIRS = "phase0_verbose.jsonl", "phase0_pairs.jsonl"


class CheckpointLine(TypedDict):
    """`key` is the fingerprint of the settings that the line was made with."""

    example_id: str
    key: str


class Checkpoint:
    """One file. `lines` are the objects in it, by example id; the latest line of an example holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[str, dict[str, Any]] = {}

    def load(self) -> None:
        """Read the file.  A last line that a kill cut short is dropped, from the file as well."""
        lines = load_lines(self.path, CheckpointLine, "checkpoint of an example", repair=True)
        self.lines = {line["example_id"]: line for line in lines}

    def rotate(self) -> Path | None:
        """Move an earlier file to `<name>.1`, `<name>.2`, ...; returns the new path, None when there was no file."""
        self.lines = {}
        if not self.path.exists():
            return None
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.{number}")).exists():
            number += 1
        self.path.replace(aside)
        return aside

    def holds(self, example: str, fingerprint: str) -> bool:
        """Whether there is a line for the example that was made with these settings."""
        return example in self.lines and self.lines[example]["key"] == fingerprint

    def append(self, line: Mapping[str, Any]) -> None:
        """Add one example; when this returns, a power cut does not take it away."""
        append_lines(self.path, [line])
        self.lines[line["example_id"]] = dict(line)
