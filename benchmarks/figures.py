"""What every benchmark does with its figures: print a table, and keep them with what they were measured on."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("WHETSTONE_RESULTS") or Path(__file__).parent / "results")
"""Where figures are kept; a run that is only a check names another folder."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [head, *rows]]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def loss_within_margin(is_shown: bool, most: float, margin: float = 0.03) -> str:
    """Whether fewer right answers are lost than the margin, a share of all: "yes", "no" for a larger loss, "not shown".

    is_shown: by the test of non-inferiority; most: the upper end of the interval of the change of right answers.
    """
    if is_shown:
        return "yes"
    return "no" if most < -margin else "not shown"


def write(name: str, figures: dict[str, Any]) -> None:
    """Write <name>.json into `FOLDER`."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    when = datetime.now(UTC).isoformat(timespec="seconds")
    (FOLDER / f"{name}.json").write_text(json.dumps({"when": when, "machine": machine, **figures}, indent=1) + "\n")
