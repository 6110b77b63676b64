"""Each optimiser on the farm: a run that was killed and continues ends as one that nothing happened to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_folder import RunFolder, kill_at_moments

OTHERS = ["hybrid", "nsga2", "lineage", "random"]


@pytest.mark.parametrize("name", ["cma", *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)])
def test_a_killed_run_ends_in_the_state_of_an_undisturbed_one(tmp_path: Path, name: str) -> None:
    options = {"OPTIMISER": name, "POPULATION_SIZE": "4", "HYBRID_PROPOSALS": "1", "NGEN": "3"}
    calm, killed = (RunFolder(tmp_path / which, options) for which in ("calm", "killed"))
    try:
        # Given a finished run
        done = calm.run()
        assert done.returncode == 0, done.stdout
        # When another run of the same settings is killed, and started again
        kill_at_moments(killed, total=calm.answers())
        done = killed.run()
        assert done.returncode == 0, done.stdout
        # Then all that is written of the search is the same, and nothing was answered twice
        for file in ("evolution_state.json", "evolution_tree.json", "individuals.jsonl", "answers.json"):
            assert (killed.output / file).read_bytes() == (calm.output / file).read_bytes(), file
        assert killed.repeated() == {}
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
