"""Runs from Python: the same drivers as the commands', and a process that is left as it was."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from farm_bench import Bench
from simulated_run import Driver

import orchestrator
from orchestrator import Callback, GenerationInfo, RunEnd, RunInfo, RunStopped, SettingsError

ROOT = Path(__file__).parents[3]
CONFIG = ROOT / "configs" / "embedded.config"
ROWS = [{"question": f"What is {n} plus {n}?", "answer": 2 * n} for n in range(1, 4)]
SMALL = {
    "population_size": 3, "ngen": 2, "cxpb": 0.0, "mutpb": 1.0, "elitism_size": 1,
    "prompts_path": None,
}  # fmt: skip


class Recording(Callback):
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def on_start(self, run: RunInfo) -> None:
        self.calls.append((run.settings["training"], run.done, run.total))

    def on_generation(self, run: RunInfo, generation: GenerationInfo) -> None:
        self.calls.append(generation.number)

    def on_end(self, run: RunInfo, end: RunEnd) -> None:
        self.calls.append(end.state)


def process_state() -> tuple[object, ...]:
    umask = os.umask(0)
    os.umask(umask)
    root = logging.getLogger()
    return umask, root.level, tuple(root.handlers), signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)


@pytest.fixture
def small(simulated_farm: Bench, driver: Driver) -> dict[str, Any]:
    return {**SMALL, "farm": simulated_farm.url}


def test_an_evolution_is_run_followed_and_gone_on_with(
    small: dict[str, Any], driver: Driver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # given a run that parks, started from Python with its own questions
    driver.set_signal("fail", "reflect", "g0_child0_mut")
    recording, before = Recording(), process_state()
    call = {"output": tmp_path / "run", "data": iter(ROWS), "callbacks": [recording], "quiet": True, **small}
    call |= {"training": "0-1", "validation": "2", "test": ""}
    with pytest.raises(RunStopped, match="reflect of g0_child0_mut failed") as stopped:
        orchestrator.evolve(CONFIG, **call)
    assert stopped.value.status == 3
    # when the same call is made again
    driver.clear_signal("fail", "reflect", "g0_child0_mut")
    run = orchestrator.evolve(CONFIG, **{**call, "data": ROWS})
    # then the run goes on and ends, its results are returned, and nothing was printed but by its log
    assert recording.calls == [("0-1", 0, 2), "parked", ("0-1", 0, 2), 0, 1, "finished"]
    assert (run.status.state, len(run.generations)) == ("finished", 2)
    assert (run.comparisons[0].before[0].question, run.comparisons[0].before[0].gold) == ("What is 1 plus 1?", "2")
    assert capsys.readouterr() == ("", "")
    assert process_state() == before


def test_a_run_in_a_thread_prints_as_the_command_does(
    small: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadPoolExecutor() as threads:
        started = threads.submit(
            orchestrator.evolve, CONFIG, output=tmp_path / "run", data={"training": ROWS[:2]}, **{**small, "ngen": 1}
        )
        run = started.result(60)
    assert [len(run.questions[name]) for name in ("training", "validation", "test")] == [2, 0, 0]
    assert "generation 0 finished" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"ngem": 2}, "CONFIG_NGEM: there is no such option; did you mean CONFIG_NGEN?"),
        ({"cxpb": 2.0}, "CONFIG_CXPB: "),
        ({"judge": "no judge"}, "CONFIG_JUDGE: 'no judge' is neither a judge's name"),
        ({"judge": lambda question, gold, answer: True}, "judge: a lambda has no name"),
        ({"data": [1]}, "data: row 1 is a int, not a mapping"),
        ({"data": "nowhere.csv"}, "CONFIG_DATA_PATH: 'nowhere.csv' does not exist"),
        ({"callbacks": [Recording]}, "Recording'> is a class; give an object: Recording()"),
        ({"callbacks": [print]}, "callbacks: <built-in function print> has no on_start; inherit from"),
        ({"callbacks": Recording()}, "callbacks: a Recording is no list; give [...]"),
    ],
)
def test_wrong_settings_are_refused_before_anything_starts(given: dict[str, Any], problem: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        orchestrator.evolve(CONFIG, output=tmp_path / "run", **given)
    assert problem in str(refused.value)
    assert not (tmp_path / "run").exists()


def test_wrong_settings_of_a_collection_are_refused(tmp_path: Path) -> None:
    config = ROOT / "configs" / "collect.yaml"
    with pytest.raises(SettingsError) as refused:
        orchestrator.collect(config, {"phase0.k": 0, "phase0.j": 1}, output=tmp_path / "run", data=ROWS)
    assert [problem.partition(":")[0] for problem in refused.value.problems] == ["phase0.k", "phase0.j"]
    with pytest.raises(SettingsError, match=r"train leaves none|leaves none to learn from"):
        orchestrator.collect(config, {"data.split_ratios.train": 0.1, "data.split_ratios.val": 0.7,
                                      "data.split_ratios.test": 0.2}, output=tmp_path / "run", data=ROWS)  # fmt: skip
    with pytest.raises(SettingsError, match="data: a mapping; a collection takes rows"):
        orchestrator.collect(config, output=tmp_path / "run", data={"training": ROWS})
    with pytest.raises(SettingsError, match="seed is no section"):
        orchestrator.collect(config, {"seed.x": 1})


def test_the_import_is_light_and_names_are_found() -> None:
    heavy = "{'celery', 'deap', 'numpy', 'pydantic', 'redis', 'torch', 'yaml'}"
    code = (
        "import sys, orchestrator; orchestrator.evolve, orchestrator.collect, orchestrator.Callback, "
        f"orchestrator.RunStopped; print(sorted({heavy} & sys.modules.keys())); "
        "print(all(callable(getattr(orchestrator, name)) for name in orchestrator.__all__)); "
        "import orchestrator.collection.run; print(orchestrator.collect.__name__, 'evolve' in dir(orchestrator))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True", "collect True"]
    with pytest.raises(AttributeError, match="no attribute 'evolv'"):
        _ = orchestrator.evolv  # type: ignore[attr-defined]


def test_the_packages_whose_types_a_user_meets_say_that_they_are_typed() -> None:
    assert all((ROOT / package / "py.typed").is_file() for package in ("orchestrator", "tasks"))
