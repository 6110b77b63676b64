"""What failed in the run of an output folder: from the farm's record while it is up, else from the folder."""

from __future__ import annotations

from pathlib import Path

from orchestrator.dispatch.failures import Failed, failed_tasks
from orchestrator.output import OutputFolder, run_id_of
from orchestrator.runs.farm import FarmUnavailable
from orchestrator.runs.parking import read_parking
from orchestrator.runs.reaching import reach_farm_of


def failed_of(folder: Path) -> list[Failed]:
    """Oldest first.  Raises: OutputError, SettingsError."""
    run_id = run_id_of(folder)
    parking = read_parking(OutputFolder(folder))
    try:
        with reach_farm_of(folder) as farm:
            # A store that has lost the run knows of no failures; the folder does.
            if farm.store.knows(run_id):
                return failed_tasks(farm.store, run_id)
    except FarmUnavailable:
        pass
    return list(parking.failures) if parking else []
