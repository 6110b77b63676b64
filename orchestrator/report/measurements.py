"""`measurements.jsonl`: how long each answer of each measured system was, and whether it was right.

With it every figure of `report.json` can be computed again, by whoever does not trust it, when the farm is gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from orchestrator.report.systems import MeasuredSystem, Measurement


def measurement_lines(systems: Sequence[MeasuredSystem]) -> str:
    """One JSON object a line for each system, set of questions and repeat.

    `examples`, `tokens` and `correct` have one entry a question; the texts of the answers are not part of it.
    """
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for system in systems for line in _lines(system))


def _lines(system: MeasuredSystem) -> Iterator[dict[str, Any]]:
    asked: list[tuple[str, int, Measurement | None]] = [("validation", 0, system.validation), ("test", 0, system.test)]
    asked += [("validation", number, repeat) for number, repeat in enumerate(system.repeats, start=1)]
    for name, repeat, measured in asked:
        if measured is not None:
            yield {
                "system": system.name,
                "kind": system.kind,
                "set": name,
                "repeat": repeat,
                "fitness": measured.fitness,
                "examples": list(measured.examples),
                "tokens": list(measured.tokens),
                "correct": list(measured.correct),
            }
