"""Whole evolutions: what a folder holds, own data and judges, and what a user may do wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psutil
import pytest
from rules_server import RulesServer
from run_folder import ROOT, RunFolder, finish, orchestrator, start, wait_until

from orchestrator import cli, console
from orchestrator.evolve.resume import read_model
from orchestrator.runs.folder import OutputFolder
from tasks.gpu.model_files import model_hashes
from workers.embedded.models import embedded_model

FILES = {
    "config", "evolution_state.json", "deltas_current.json", "deltas_best.json", "processor.py", "processor_best.py",
    "history.jsonl", "individuals.jsonl", "fitness.png", "evolution_lengths.png", "evolution_tree.png",
    "reflector_prompts", "run.log", "report.txt", "report.json", "front.json", "systems.json", "pareto.png",
    "answers.json",
}  # fmt: skip


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_output_folder_holds_all_its_files(reference_run: RunFolder) -> None:
    output = reference_run.output
    assert {path.name for path in output.iterdir()} >= FILES
    state = json.loads(reference_run.state())
    assert list(state) == ["generation", "population", "best_individual", "best_fitness", "rr_idx"]
    assert (state["generation"], len(state["population"])) == (2, 3)
    history = lines(output / "history.jsonl")
    assert [g["generation"] for g in history] == [0, 1]
    assert history[-1]["best_ever"] == state["best_fitness"] and history[0]["tokens"]["target"] > 0
    # The model is known by its hashes, also to the processor
    check = read_model(OutputFolder(output))
    assert {"config": check.config, "tokenizer": check.tokenizer} == model_hashes(str(embedded_model()))
    text = (output / "processor_best.py").read_text()
    assert check.config in text and check.tokenizer in text
    # No answer is computed twice but the plain model's to the questions that put the front in order
    again = reference_run.repeated()
    assert len(again) == 3 and reference_run.repeated(twice=again) == []


def test_every_node_has_its_deltas_and_scratchpad_and_every_call_its_prompt(reference_run: RunFolder) -> None:
    found = lines(reference_run.output / "individuals.jsonl")
    individuals = {one["node"]: one for one in found}
    assert len(individuals) == len(found)
    mutated = {name: one for name, one in individuals.items() if name.endswith("_mut")}
    for name, after in mutated.items():
        before = individuals[name.replace("_mut", "_pre")]
        changed = [cluster for cluster in after["deltas"] if after["deltas"][cluster] != before["deltas"][cluster]]
        assert changed == [after["target"]] and after["scratchpad"] != before["scratchpad"]
    best = json.loads(reference_run.state())["best_individual"]
    assert best in [{"deltas": one["deltas"], "scratchpad": one["scratchpad"]} for one in found]
    prompts = sorted(path.name for path in (reference_run.output / "reflector_prompts").iterdir())
    parents = {name: {individuals[one]["scratchpad"] for one in it["parents"]} for name, it in individuals.items()}
    merged = {child for child, scratchpads in parents.items() if len(scratchpads - {""}) == 2}
    assert mutated and merged
    assert {f"gen_{node[1]}_mutation_{node}.txt" for node in mutated} <= {*prompts}
    assert {name for name in prompts if "_merge_" in name} == {f"gen_{node[1]}_merge_{node}.txt" for node in merged}
    assert "===== system =====" in (reference_run.output / "reflector_prompts" / prompts[0]).read_text()


def test_a_finished_run_is_not_run_again_and_does_not_go_on_with_other_settings(reference_run: RunFolder) -> None:
    before, calls = reference_run.state(), reference_run.answered("target_requests.jsonl")
    done = reference_run.run()
    assert done.returncode == 0, done.stdout
    assert (reference_run.output / "report.txt").read_text() in done.stdout
    refused = reference_run.run(SHORTNESS_SCALE="77")
    assert refused.returncode == 1
    assert "CONFIG_SHORTNESS_SCALE" in refused.stdout and "--fresh" in refused.stdout
    assert (reference_run.state(), reference_run.answered("target_requests.jsonl")) == (before, calls)


CSV = """nr,part,q,gold
1,train,"A box holds 12 eggs. How many eggs are in 2 boxes?",24
2,train,What is 3 plus 4?,7
1,dev,What is 10 minus 4?,6
2,dev,"Ann has 3 apples, and Bob has 5. How many have they together?",8
1,held out,What is 2 times 2?,4
"""
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
    return {
        "DATA_COLUMNS": "id=nr split=part question=q answer=gold context=", "DATA_PATH": str(path),
        "TRAINING": "train", "VALIDATION": "dev", "TEST": "held out",
        "OPTIMISER": "random", "POPULATION_SIZE": "2", "NGEN": "1",
    }  # fmt: skip


def test_exact_numbers_judge_a_csv_file_without_a_call(run_folder: RunFolder, own_data: dict[str, str]) -> None:
    done = run_folder.run(**own_data, JUDGE="exact_number")
    assert done.returncode == 0, done.stdout
    assert "judge: exact final number (no language model)" in done.stdout
    answers = json.loads((run_folder.output / "answers.json").read_text())
    assert [[row["gold"] for row in one["before"]] for one in answers[:2]] == [["24", "7"], ["6", "8"]]
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
    # when it can, and the run is retried, then it ends, and the report names the judge
    (modules / "broken").unlink()
    done = orchestrator("retry", str(run_folder.output))
    assert done.returncode == 0, done.stdout
    assert "the function own_judge:judge" in (run_folder.output / "report.txt").read_text()


def test_a_question_that_is_too_long_ends_the_run_before_anything_is_asked(run_folder: RunFolder) -> None:
    # given a page of 60,000 characters, more than the embedded target reads
    rows = lines(ROOT / "configs" / "data" / "sample.jsonl")[:4]
    rows[1]["evidence"][0]["evidence_text_full_page"] += " and so on" * 6_000
    path = run_folder.folder / "long.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = {"DATA_PATH": str(path), "TRAINING": "0-2", "VALIDATION": "3"}
    done = run_folder.run(**data)
    assert done.returncode == 1, done.stdout
    assert "sample_id_00002 (18," in done.stdout and "more than the 8,175 tokens" in done.stdout
    assert run_folder.answered("target_requests.jsonl") == []
    # the same run goes on when it is told what to do with it
    done = run_folder.run(**data, TOO_LONG="drop", NGEN="1")
    assert done.returncode == 0, done.stdout
    assert "questions were dropped" in done.stdout and "sample_id_00002 (18," in done.stdout
    assert len(lines(run_folder.output / "history.jsonl")) == 1
    answers = json.loads((run_folder.output / "answers.json").read_text())
    assert [len(comparison["before"]) for comparison in answers] == [2, 1]


SECRET = "sk-e2e-0123456789-never-printed"


@pytest.mark.long
def test_a_key_is_in_no_file_of_a_run_and_the_report_names_the_rules_of_an_external_endpoint(
    run_folder: RunFolder, rules: RulesServer
) -> None:
    # Given a key, and the address of an external endpoint that answers by rules
    rules.key = SECRET
    models = {"REFLECTOR_MODEL": "a-large-model", "JUDGE_MODEL": "a-small-model"}
    run = start(["env", f"OPENAI_API_KEY={SECRET}", *run_folder.command(NGEN="1", **rules.options, **models)])
    wait_until(lambda: (run_folder.output / "reflector_prompts").exists() or run.poll() is not None, "a prompt")
    found = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    assert not any(SECRET in argument for line in found for argument in line)
    done = finish(run)
    assert done.returncode == 0, done.stdout
    # Then the key is not in the store's file on disk, the logs, the prompts or the report
    assert list(run_folder.farm.rglob("*.aof*")), "the store wrote its data to disk"
    files = [path for path in run_folder.folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    assert SECRET not in done.stdout
    # And the report names the rules, not the models of the settings
    report = (run_folder.output / "report.txt").read_text()
    assert report.count("rules of the embedded endpoint") == 2
    assert "a-large-model" not in report and "a-small-model" not in report


def test_a_full_disk_parks_the_run(run_folder: RunFolder) -> None:
    # No file may be larger than 1,000 bytes: the same error as on a full disk.  Python would cut compiled modules
    # there, and keep them for every later process.
    done = finish(start(["env", "PYTHONDONTWRITEBYTECODE=1", "prlimit", "--fsize=1000", *run_folder.command()]))
    assert done.returncode == 3, done.stdout
    assert "make room" in done.stdout and "Traceback" not in done.stdout
    assert not run_folder.farm.exists()


def test_every_wrong_option_has_a_line_and_nothing_is_started(
    run_folder: RunFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    _, _, _, *arguments = run_folder.command(CXPB="2", MUTPB="x", NGEN="0")
    assert cli.main(arguments) == console.WRONG
    said = capsys.readouterr().err.splitlines()
    assert [line.split("CONFIG_")[1].split(":")[0] for line in said] == ["NGEN", "CXPB", "MUTPB"]
    assert not run_folder.farm.exists() and not run_folder.output.exists()


@pytest.mark.parametrize(
    "arguments", [(), ("dance",), ("evolve", "--config"), ("farm", "sideways"), ("evolve", "--config", "/nowhere/x")]
)
def test_wrong_arguments_end_with_1(arguments: tuple[str, ...]) -> None:
    done = orchestrator(*arguments)
    assert done.returncode == 1 and "Traceback" not in done.stdout


def test_a_damaged_state_is_not_overwritten(run_folder: RunFolder) -> None:
    run_folder.output.mkdir()
    (run_folder.output / "evolution_state.json").write_text('{"generation": 1')
    done = run_folder.run()
    assert done.returncode == 1 and "evolution_state.json" in done.stdout
    assert run_folder.state() == '{"generation": 1' and not run_folder.farm.exists()


WITH_SHORT_WAIT = """
from orchestrator import cli
from orchestrator.farm import connection
connection.START_WAIT_S = 1.0
raise SystemExit(cli.main())
"""


def test_a_missing_broker_is_an_error_of_one_line(run_folder: RunFolder) -> None:
    # It is connected to again and again, here for a second in place of a quarter of a minute
    python, _, _, *arguments = run_folder.command(FARM="redis://127.0.0.1:1/0")
    done = finish(start([python, "-c", WITH_SHORT_WAIT, *arguments]))
    assert done.returncode == 2
    assert "no Redis or Valkey" in done.stdout and "Traceback" not in done.stdout
