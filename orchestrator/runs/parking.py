"""Why a run parked, in its output folder: it can be read when the farm is down and Redis is gone."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

from orchestrator.dispatch.failures import Failed
from orchestrator.output import OutputError, OutputFolder

NAME = "parked.json"


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
        values = json.loads(path.read_text())
        return Parking(str(values["reason"]), tuple(Failed(**failure) for failure in values["failures"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OutputError(f"{path} cannot be read: {error}") from None


def clear_parking(output: OutputFolder) -> None:
    (output.path / NAME).unlink(missing_ok=True)
