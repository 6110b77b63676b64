"""Runs from Python: the drivers of the commands, what they return, and callbacks, which cannot harm a run."""

from __future__ import annotations

import json
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from farm_bench import Bench
from simulated_run import Driver

from orchestrator import api, console
from orchestrator.api import Callback, GenerationInfo, RunEnd, RunInfo, RunStopped, SettingsError
from orchestrator.callbacks import Callbacks
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.session import Driving, Ending

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "configs" / "embedded.config"
ROWS = [
    {"question": f"What is {n} plus {n}?", "answer": 2 * n, "split": split}
    for n, split in enumerate(("train", "train", "validation"), start=1)
]


class Recording(Callback):
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def on_start(self, run: RunInfo) -> None:
        self.calls.append((run.settings["training"], run.done, run.total))

    def on_generation(self, run: RunInfo, generation: GenerationInfo) -> None:
        self.calls.append(generation.number)

    def on_end(self, run: RunInfo, end: RunEnd) -> None:
        self.calls.append(end)


def contains(question: str, gold: str, answer: str) -> bool:
    return gold in answer


def test_an_evolution_is_run_followed_and_gone_on_with(
    simulated_farm: Bench, driver: Driver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # given a run that parks
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    driver.set_signal("fail", "reflect", "g0_child0_mut")
    recording = Recording()
    call: dict[str, Any] = {
        "output": tmp_path / "run", "callbacks": [recording], "quiet": True, "judge": contains,
        "farm": simulated_farm.url, "population_size": 3, "ngen": 2, "cxpb": 0.0, "mutpb": 1.0, "elitism_size": 1,
        "prompts_path": None, "data_path": tmp_path / "rows.jsonl", "training": "train",
        "validation": "validation", "test": "",
    }  # fmt: skip
    with pytest.raises(RunStopped, match="reflect of g0_child0_mut failed") as stopped:
        api.evolve(CONFIG, **call)
    assert stopped.value.status == 3
    # when the same call is made again
    driver.clear_signal("fail", "reflect", "g0_child0_mut")
    run = api.evolve(CONFIG, **call)
    # then the run goes on and ends, its results are returned, and nothing was printed but by its log
    calls = [call.state if isinstance(call, RunEnd) else call for call in recording.calls]
    assert calls == [("train", 0, 2), "parked", ("train", 0, 2), 0, 1, "finished"]
    assert (run.status.state, len(run.generations)) == ("finished", 2)
    assert run.settings["JUDGE"] == f"{__file__}:contains"
    assert capsys.readouterr() == ("", "")


def test_wrong_settings_are_refused_before_anything_starts(tmp_path: Path) -> None:
    output = tmp_path / "run"
    for given, named in (
        ({"ngem": 2}, "CONFIG_NGEM"),
        ({"judge": lambda question, gold, answer: True}, "judge"),
        ({"data_path": "nowhere.csv"}, "CONFIG_DATA_PATH"),
    ):
        with pytest.raises(SettingsError, match=named):
            api.evolve(CONFIG, output=output, **given)
    with pytest.raises(SettingsError) as refused:
        api.collect(ROOT / "configs" / "collect.yaml", {"phase0.k": 0, "phase0.j": 1}, output=output)
    assert [problem.partition(":")[0] for problem in refused.value.problems] == ["phase0.k", "phase0.j"]
    assert not output.exists()


def test_a_guided_run_ends_as_an_evolution_does(monkeypatch: pytest.MonkeyPatch) -> None:
    for status, raised in (
        (console.PARKED, RunStopped),
        (console.INTERRUPTED, KeyboardInterrupt),
        (console.BY_SIGNAL + signal.SIGTERM, SystemExit),
    ):
        ending = Ending(status, ("it ended",))
        monkeypatch.setattr("orchestrator.guide.run.start_guide", lambda *_, ending=ending, **__: ending)
        with pytest.raises(raised):
            api.guide(ROOT / "configs" / "guide.yaml")


class Failing(Callback):
    def on_generation(self, run: RunInfo, generation: GenerationInfo) -> None:
        raise SystemExit(f"no server for {run.id}")


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (KeyboardInterrupt(), RunEnd("stopped", "interrupted; the same command goes on, or: orchestrator retry {}")),
        (RuntimeError("a fault\nof the program"), RunEnd("failed", "a fault")),
    ],
)
def test_callbacks_are_told_of_an_end_by_the_user_or_by_a_fault_and_one_that_fails_stops_nothing(
    tmp_path: Path, error: BaseException, end: RunEnd
) -> None:
    recording, lines = Recording(), list[str]()
    told = Callbacks([Failing(), recording], lines.append)
    expected = pytest.raises(RuntimeError) if end.state == "failed" else nullcontext()
    with expected, Driving(OutputFolder(tmp_path), told):
        told.start(RunInfo("run-1", "evolve", tmp_path, {"training": "all"}, 2))
        told.end_generation(GenerationInfo(0, {"best": 0.5}, {"0": 1.0}, ""))
        raise error
    assert recording.calls == [("all", 0, 2), 0, RunEnd(end.state, end.reason.format(tmp_path))]
    [line] = lines
    assert "Failing.on_generation failed: SystemExit: no server for run-1" in line
