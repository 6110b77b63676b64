"""Why a run parked, in its output folder: it can be read when the farm is down and Redis is gone."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from orchestrator.dispatch.failures import Failed
from orchestrator.output import OutputFolder, read_own
from tasks.shape import NUMBER, Shape

NAME = "parked.json"
FAILED: Shape = {
    "plan": str, "generation": int, "index": int, "node": str, "stage": str,
    "error": str, "task": str, "tries": int, "at": NUMBER, "prompt": str,
}  # fmt: skip
SHAPE: Shape = {"reason": str, "failures": [FAILED]}


@dataclass(frozen=True)
class Parking:
    """The reason in one line, and the tasks that failed, where some did."""

    reason: str
    failures: tuple[Failed, ...]


def write_parking(output: OutputFolder, parking: Parking) -> None:
    output.write_json(NAME, dataclasses.asdict(parking))


def read_parking(output: OutputFolder) -> Parking | None:
    """None for a run that has not parked.  Raises: OutputError for a file that is of no use."""
    path = output.path / NAME
    try:
        values = read_own(path, SHAPE)
    except FileNotFoundError:
        return None
    names = [field.name for field in dataclasses.fields(Failed)]
    return Parking(values["reason"], tuple(Failed(**{n: f[n] for n in names}) for f in values["failures"]))


def clear_parking(output: OutputFolder) -> None:
    (output.path / NAME).unlink(missing_ok=True)
