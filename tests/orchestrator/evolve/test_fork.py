"""A run that begins where another one was."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from orchestrator.evolve.fork import find_fork, resolve_fork
from orchestrator.results import RunResults
from orchestrator.runs.folder import OutputError
from orchestrator.settings import SettingsError


def test_what_a_fork_begins_with(finished_run: Path, tmp_path: Path) -> None:
    results = RunResults.open(finished_run)
    state = json.loads((finished_run / "evolution_state.json").read_text())
    for spec in (f"{finished_run}", f"{finished_run}@2"):
        end = find_fork(spec)
        for name, values in ((state["arm"], state), *state["others"].items()):
            arm = end.content["arms"][name]
            assert arm["clustering"] == next(arm.clustering for arm in results.book.arms if arm.name == name)
            assert arm["population"] == values["population"]
    assert set(end.content["arms"]) == {"plain", "short"}
    # An individual begins in its own arm
    one, individual = find_fork(f"{finished_run}@g1_child0_mut"), results.individual("g1_child0_mut")
    [(name, arm)] = one.content["arms"].items()
    assert (one.at, name) == ("g1_child0_mut", individual.arm)
    assert arm["population"] == [{"deltas": individual.deltas, "scratchpad": individual.scratchpad}]
    # a folder may have an @ in its name
    copied = shutil.copytree(finished_run, tmp_path / "run@1")
    assert find_fork(str(copied)).at == "the end of 2 generations"
    assert find_fork(f"{copied}@1").at == "generation 1"
    # and what a run does not have is refused
    for place, fault in (
        ("@3", "there is no 3"),
        ("@g7_pop0", "has no individual"),
        ("x", "no run"),
    ):
        with pytest.raises(OutputError, match=fault):
            find_fork(f"{finished_run}{place}")


@pytest.mark.parametrize(
    ("overrides", "fault"),
    [
        ({}, "CONFIG_OUTPUT_DIR: is that of the run to fork; give another with --output"),
        ({"OUTPUT_DIR": "o", "CLUSTERS": "8"}, "CONFIG_CLUSTERS: is 8, and 10 in .*: a fork has the clu"),
        ({"OUTPUT_DIR": "o", "CONFIG_INITIAL_DELTAS_PATH": "zero"}, "CONFIG_INITIAL_DELTAS_PATH: --fork says what"),
    ],
)
def test_settings_that_do_not_fit_a_fork_are_refused(finished_run: Path, overrides: dict[str, str], fault: str) -> None:
    with pytest.raises(SettingsError, match=fault):
        resolve_fork(f"{finished_run}@1", None, overrides)
