"""The two checkpoint files of a collection: one JSON object for each example, appended and synced to disk at once."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from orchestrator.output import OutputError, writing
from tasks.files import FileTooLarge, read_limited
from tasks.limits import COLLECTED_BYTES
from tasks.validation import InvalidData, checked_json

VERBOSE, PAIRS = "phase0_verbose.jsonl", "phase0_pairs.jsonl"


class CheckpointVerdict(TypedDict):
    is_correct: bool
    confidence: float
    category: str
    reasoning: str


class CheckpointPair(TypedDict):
    verbose_answer: str
    compressed_answer: str
    correctness: CheckpointVerdict
    compressed_by: NotRequired[str]
    judged_by: NotRequired[str]
    skipped: NotRequired[str]


class CheckpointLine(TypedDict):
    """`key` is the fingerprint of the settings that the line was made with."""

    example_id: str
    key: str


class VerboseLine(CheckpointLine):
    verbose_answers: list[str]


class PairsLine(CheckpointLine):
    pairs: list[CheckpointPair]


LINES: Mapping[str, type[CheckpointLine]] = {VERBOSE: VerboseLine, PAIRS: PairsLine}


class Checkpoint:
    """One file. `lines` are the objects in it, by example id; the latest line of an example holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[str, dict[str, Any]] = {}

    def load(self) -> None:
        """Read the file.  A last line that a kill cut short is dropped, from the file as well.

        Raises: OutputError for a broken line that is not the last one: no kill does that.
        """
        try:
            raw = read_limited(self.path, COLLECTED_BYTES) if self.path.exists() else b""
        except OSError as error:
            raise OutputError(f"{self.path} cannot be read: {error.strerror}") from None
        except FileTooLarge as error:
            raise OutputError(f"{self.path} cannot be read: {error}") from None
        kind = LINES.get(self.path.name, CheckpointLine)
        whole, _, torn = raw.rpartition(b"\n")
        lines = whole.split(b"\n") if whole else []
        if lines and _read(lines[-1], kind) is None:
            torn = lines.pop()  # a power cut may leave a line of zeros with its end
        self.lines = {}
        for number, line in enumerate(lines, start=1):
            found = _read(line, kind)
            if found is None:
                raise OutputError(f"{self.path}: line {number} is no checkpoint of an example; correct it or remove it")
            self.lines[found["example_id"]] = found
        if torn:
            with self.path.open("r+b") as file:
                file.truncate(sum(len(line) + 1 for line in lines))
                os.fsync(file.fileno())

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
        """Add one example; when this returns, a power cut does not take it away.

        Raises: OutputNotWritable; a line that was cut short is dropped by the next `load`.
        """
        with writing(self.path), self.path.open("ab") as file:
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.lines[line["example_id"]] = dict(line)


def _read(line: bytes, kind: type[CheckpointLine]) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = checked_json(kind, line)
    except InvalidData:
        return None
    return found
