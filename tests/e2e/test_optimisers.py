"""Each optimiser on the farm: a run that was killed and continues ends as one that nothing happened to."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from run_folder import RunFolder, wait_until

LOGS = ("target_requests.jsonl", "endpoint_calls.jsonl")
# At how many moments the run is killed: one by default, ten with `make faults`.
MOMENTS = int(os.environ.get("WHETSTONE_KILL_MOMENTS", "1"))
OTHERS = ["hybrid", "nsga2", "lineage", "random"]


@pytest.mark.parametrize("name", ["cma", *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)])
def test_a_killed_run_ends_in_the_state_of_an_undisturbed_one(tmp_path: Path, name: str) -> None:
    options = {"OPTIMISER": name, "POPULATION_SIZE": "4", "HYBRID_PROPOSALS": "1", "NGEN": "3"}
    calm, killed = (RunFolder(tmp_path / which, options) for which in ("calm", "killed"))
    try:
        # Given a finished run
        done = calm.run()
        assert done.returncode == 0, done.stdout
        total = answers_so_far(calm)
        # When another run of the same settings is killed, and started again
        for moment in range(MOMENTS):
            wanted = total * (moment + 1) // (MOMENTS + 1)
            process = killed.start()
            wait_until(lambda w=wanted, p=process: answers_so_far(killed) >= w or p.poll() is not None, "answers")
            process.kill()
            process.communicate()
            wait_until(lambda: not killed.processes(), "the killed orchestrator's farm to end", 30)
        done = killed.run()
        assert done.returncode == 0, done.stdout
        # Then all that is written of the search is the same, and nothing was answered twice
        for file in ("evolution_state.json", "evolution_tree.json", "individuals.jsonl", "answers.json"):
            assert (killed.output / file).read_bytes() == (calm.output / file).read_bytes(), file
        for log in LOGS:
            assert {key: n for key, n in Counter(killed.answered(log)).items() if n > 1} == {}
        check_files(calm, name)
    finally:
        for run in (calm, killed):
            run.clear()


def check_files(run: RunFolder, name: str) -> None:
    """The state names its optimiser, and history, pictures and the processor of the best are there."""
    state = json.loads(run.state())
    assert (state["optimiser"], state["state"]["generation"]) == (name, 3)
    history = [json.loads(line) for line in (run.output / "history.jsonl").read_text().splitlines()]
    assert [line["generation"] for line in history] == [0, 1, 2]
    assert history[-1]["best_ever"] == state["state"]["best"]["fitness"]
    files = {path.name for path in run.output.iterdir()}
    assert {"fitness.png", "evolution_lengths.png", "evolution_tree.png", "processor_best.py", "report.txt"} <= files
    prompts = list((run.output / "reflector_prompts").glob("*")) if "reflector_prompts" in files else []
    assert bool(prompts) == (name in ("hybrid", "lineage"))


def answers_so_far(run: RunFolder) -> int:
    return sum(len(run.answered(log)) for log in LOGS)
