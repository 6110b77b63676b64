"""A run on a CSV file, judged without a model: by exact numbers, or by a function that fails first."""

from __future__ import annotations

import json

import pytest
from run_folder import ROOT, RunFolder, orchestrator

CSV = """nr,part,q,gold
1,train,"A box holds 12 eggs. How many eggs are in 2 boxes?",24
2,train,What is 3 plus 4?,7
1,dev,What is 10 minus 4?,6
2,dev,"Ann has 3 apples, and Bob has 5. How many have they together?",8
1,held out,What is 2 times 2?,4
"""
OPTIONS = {
    "DATA_COLUMNS": "id=nr split=part question=q answer=gold context=",
    "TRAINING": "train",
    "VALIDATION": "dev",
    "TEST": "held out",
    "OPTIMISER": "random",
    "POPULATION_SIZE": "2",
    "NGEN": "1",
}
FUNCTION = """
from pathlib import Path

def judge(question, gold, answer):
    if Path(__file__).with_name("broken").exists():
        raise LookupError("the unit of the gold is unknown")
    return gold in answer
"""


@pytest.fixture
def own_data(run_folder: RunFolder) -> dict[str, str]:
    path = run_folder.folder / "questions.csv"
    path.write_text(CSV)
    return {**OPTIONS, "DATA_PATH": str(path)}


def test_exact_numbers_judge_a_csv_file_without_a_call(run_folder: RunFolder, own_data: dict[str, str]) -> None:
    done = run_folder.run(**own_data, JUDGE="exact_number")
    assert done.returncode == 0, done.stdout
    assert "judge: exact final number (no language model)" in done.stdout
    answers = json.loads((run_folder.output / "answers.json").read_text())
    assert [row["gold"] for row in answers[0]["before"]] == ["24", "7"]
    assert [row["gold"] for row in answers[1]["before"]] == ["6", "8"]
    assert "exact final number (no language model)" in (run_folder.output / "report.txt").read_text()


@pytest.mark.long
def test_a_function_that_fails_parks_the_run_with_its_message_and_a_retry_finishes_it(
    run_folder: RunFolder, own_data: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a function of the user's own that cannot judge
    modules = run_folder.folder / "modules"
    modules.mkdir()
    (modules / "own_judge.py").write_text(FUNCTION)
    (modules / "broken").touch()
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{modules}")
    parked = run_folder.run(**own_data, JUDGE="own_judge:judge")
    assert parked.returncode == 3, parked.stdout
    assert "the judge own_judge:judge failed: LookupError: the unit of the gold is unknown" in parked.stdout

    # when it can, and the run is retried
    (modules / "broken").unlink()
    done = orchestrator("retry", str(run_folder.output))

    # then the run finishes, no answer was asked for twice, and the report names the judge
    assert done.returncode == 0, done.stdout
    assert "the function own_judge:judge" in (run_folder.output / "report.txt").read_text()
