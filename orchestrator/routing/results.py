"""The files in which a `route` run leaves its results, by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

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
