"""What follows a run from inside its driver, and cannot harm it."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from orchestrator.callbacks import Callback, Callbacks, GenerationInfo, RunEnd, RunInfo
from orchestrator.farm import Parked
from orchestrator.runs.folder import OutputError, OutputFolder
from orchestrator.runs.session import Driving

RUN = RunInfo("run-1", "evolve", Path("outputs/run"), {"seed": 1}, 2)
GENERATION = GenerationInfo(0, {"best": 0.5}, {"0": 1.0}, "")


class Recording(Callback):
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def on_start(self, run: RunInfo) -> None:
        self.calls.append(("start", run.id))

    def on_generation(self, run: RunInfo, generation: GenerationInfo) -> None:
        self.calls.append((run.id, generation.record["best"]))

    def on_end(self, run: RunInfo, end: RunEnd) -> None:
        self.calls.append((run.id, end))


class Failing(Callback):
    def on_generation(self, run: RunInfo, generation: GenerationInfo) -> None:
        raise SystemExit(f"no server for {run.id}")


def test_each_callback_is_told_and_one_that_fails_stops_nothing() -> None:
    recording, lines = Recording(), []
    told = Callbacks([Failing(), recording], lines.append)
    told.start(RUN)
    told.end_generation(GENERATION)
    told.end(RunEnd("finished"))
    told.end(RunEnd("failed"))  # it has ended already
    assert recording.calls == [("start", "run-1"), ("run-1", 0.5), ("run-1", RunEnd("finished"))]
    failed = "the callback Failing.on_generation failed: SystemExit: no server for run-1"
    assert lines == [f"{failed}; the run is not affected"]


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (None, RunEnd("finished")),
        (Parked("judge failed"), RunEnd("parked", "parked: judge failed")),
        (KeyboardInterrupt(), RunEnd("stopped", "interrupted; the same command goes on, or: orchestrator retry {}")),
        (RuntimeError("a fault\nof the program"), RunEnd("failed", "a fault")),
    ],
)
def test_callbacks_are_told_how_a_run_ends_while_its_folder_is_locked(
    tmp_path: Path, error: BaseException | None, end: RunEnd
) -> None:
    class Locked(Recording):
        def on_end(self, run: RunInfo, end: RunEnd) -> None:
            super().on_end(run, end)
            with pytest.raises(OutputError):
                OutputFolder(tmp_path).open()

    recording = Locked()
    told = Callbacks([recording])
    output = OutputFolder(tmp_path)
    output.open()

    expected = pytest.raises(RuntimeError) if isinstance(error, RuntimeError) else nullcontext()
    with expected, Driving(output, told):
        told.start(RUN)
        if error is not None:
            raise error
    assert recording.calls[-1] == ("run-1", RunEnd(end.state, end.reason.format(tmp_path)))
