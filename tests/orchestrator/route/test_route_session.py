"""A session of `route` on a farm without workers: what callbacks are told, and what its end leaves in the folder."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from route_values import small_route
from simulated_run import Driver

from orchestrator.callbacks import Callback, Callbacks, RunInfo
from orchestrator.farm import FarmLost, Parked
from orchestrator.farm.connection import FarmConnection
from orchestrator.route.registration import read_texts
from orchestrator.route.session import run_route
from orchestrator.route.settings import RouteOptions
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.kinds import PROGRESS_FILE, ProgressFile
from tasks.store.client import RunTaken


class Told(Callback):
    def on_start(self, run: RunInfo) -> None:
        self.steps = (run.done, run.total)


@pytest.mark.parametrize(
    ("error", "is_reported"),
    [(KeyboardInterrupt(), True), (Parked("x"), True), (RunTaken("by another"), False), (FarmLost("x"), False)],
)
def test_a_session_begins_with_the_steps_done_and_reports_its_end_unless_the_run_is_another_process_s(
    alone: Driver, tmp_path: Path, error: BaseException, is_reported: bool
) -> None:
    # Given a run of two arms with four steps each, three of which an earlier session has done
    output, told, settings = OutputFolder(tmp_path), Told(), small_route(tmp_path)
    output.run_id("route")
    output.write_json(PROGRESS_FILE, ProgressFile(done=3, total=8, is_finished=False, figures={}))

    def check() -> None:
        output.remove(PROGRESS_FILE)
        raise error

    # When it ends while it waits for its first job
    farm = nullcontext(FarmConnection(alone.app, alone.broker, alone.store, False, check))
    with pytest.raises(type(error)):
        run_route(settings, RouteOptions(), read_texts(settings), output, farm, Callbacks([told]), ())
    # Then only a session whose run is still its own has written how far it is
    assert told.steps == (3, 8)
    assert (tmp_path / PROGRESS_FILE).exists() is is_reported
