"""The files in which a `route` run leaves its results, by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from orchestrator.runs.folder import OutputError
from tasks.route.jobs import Arm

EVALUATION_FILE, COMPARISON_FILE, REPORT_FILE = "evaluation.jsonl", "comparison.json", "report.md"
ROWS, CHECKPOINTS = "rows", "checkpoints"


def rows_file(arm: Arm) -> str:
    """One line for each step: figures, diagnostics, and the log of its rows."""
    return f"{ROWS}/{arm.name}.jsonl"


def checkpoint_file(arm: Arm) -> str:
    """The last state: knobs, moments, bands and rows."""
    return f"{CHECKPOINTS}/{arm.name}.safetensors"


def json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in rows)


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror}") from None
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(json.loads(line))
        except ValueError as error:
            raise OutputError(f"{path} is damaged: line {number}: {error}") from None
    return found
