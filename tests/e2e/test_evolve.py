"""Whole evolutions: what a folder holds, and own data."""

from __future__ import annotations

import json

import psutil
import pytest
from rules_server import RulesServer
from run_folder import LOGS, RunFolder, farm_up, finish, start, wait_until

from orchestrator import console
from orchestrator.evolve.resume import read_model
from orchestrator.runs.folder import OutputFolder
from tasks.gpu.model_files import model_hashes
from workers.embedded.models import embedded_model

CSV = """nr,part,q,gold
1,train,"A box holds 12 eggs. How many eggs are in 2 boxes?",24
2,train,What is 3 plus 4?,7
3,train,"{long}What is 5 plus 4?",9
1,dev,What is 10 minus 4?,6
2,dev,"Ann has 3 apples, and Bob has 5. How many have they together?",8
1,held out,What is 2 times 2?,4
"""


def test_a_run_on_own_questions_judged_by_their_numbers_stops_at_one_that_is_too_long_and_ends_when_told(
    run_folder: RunFolder,
) -> None:
    # Given a file of the user's own, with a question of more tokens than the target reads, and no judge to call
    path = run_folder.folder / "questions.csv"
    path.write_text(CSV.replace("{long}", "and so on " * 6_000))
    run_folder.options |= {
        "DATA_COLUMNS": "id=nr split=part question=q answer=gold context=", "DATA_PATH": str(path),
        "TRAINING": "train", "VALIDATION": "dev", "TEST": "held out", "JUDGE": "exact_number",
        "OPTIMISER": "random", "POPULATION_SIZE": "2", "NGEN": "1",
    }  # fmt: skip
    with farm_up(run_folder):
        # Then the run ends before anything is asked, and names the question and its length
        refused = run_folder.run()
        assert refused.returncode == console.WRONG, refused.stdout
        assert "3 (18," in refused.stdout and "more than the 8,175 tokens" in refused.stdout
        assert run_folder.answered(LOGS[0]) == []
        # When it is told what to do with it, then the same run goes on to its end
        done = run_folder.run(TOO_LONG="drop")
        assert done.returncode == 0, done.stdout
        assert "questions were dropped" in done.stdout and "exact final number (no language model)" in done.stdout
        answers = json.loads((run_folder.output / "answers.json").read_text())
        assert [[row["gold"] for row in one["before"]] for one in answers[:2]] == [["24", "7"], ["6", "8"]]
        report = (run_folder.output / "report.txt").read_text()
        assert "exact final number (no language model)" in report
        # When it is started again, then it asks nothing, and says what it said; and other settings are refused
        before = run_folder.result(), run_folder.answers()
        again = run_folder.run(TOO_LONG="drop")
        assert (again.returncode, report in again.stdout) == (0, True), again.stdout
        other = run_folder.run(TOO_LONG="drop", SHORTNESS_SCALE="77")
        assert (other.returncode, "CONFIG_SHORTNESS_SCALE" in other.stdout) == (console.WRONG, True), other.stdout
        assert before == (run_folder.result(), run_folder.answers())


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


# Last, since another process of `pytest -n` makes the reference run meanwhile.
FILES = {
    "config", "evolution_state.json", "deltas_current.json", "deltas_best.json", "processor.py", "processor_best.py",
    "history.jsonl", "individuals.jsonl", "fitness.png", "evolution_lengths.png", "evolution_tree.png",
    "reflector_prompts", "run.log", "report.txt", "report.json", "front.json", "systems.json", "pareto.png",
    "answers.json",
}  # fmt: skip


def test_the_output_folder_holds_all_its_files(reference_run: RunFolder) -> None:
    output = reference_run.output
    assert {path.name for path in output.iterdir()} >= FILES
    state = json.loads(reference_run.state())
    assert list(state) == ["generation", "population", "best_individual", "best_fitness", "rr_idx"]
    assert (state["generation"], len(state["population"])) == (2, 3)
    history = [json.loads(line) for line in (output / "history.jsonl").read_text().splitlines()]
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
    found = [json.loads(line) for line in (reference_run.output / "individuals.jsonl").read_text().splitlines()]
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
