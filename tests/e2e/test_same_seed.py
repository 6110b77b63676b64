"""The same seed and the same answers give the same run, and a finished run is not run again."""

from __future__ import annotations

import json
from typing import Any

from run_folder import RunFolder

from orchestrator.evolve.resume import read_model
from orchestrator.runs.folder import OutputFolder
from tasks.gpu.model_files import model_hashes
from workers.embedded.models import embedded_model


def test_the_output_folder_holds_all_its_files(reference_run: RunFolder) -> None:
    names = {path.name for path in reference_run.output.iterdir()}
    assert {
        "config",
        "evolution_state.json",
        "deltas_current.json",
        "deltas_best.json",
        "processor.py",
        "processor_best.py",
        "history.jsonl",
        "individuals.jsonl",
        "fitness.png",
        "evolution_lengths.png",
        "evolution_tree.png",
        "reflector_prompts",
        "run.log",
        "report.txt",
        "report.json",
        "front.json",
        "systems.json",
        "pareto.png",
        "answers.json",
    } <= names
    state = json.loads(reference_run.state())
    assert list(state) == ["generation", "population", "best_individual", "best_fitness", "rr_idx"]
    assert state["generation"] == 2
    assert len(state["population"]) == 3
    history = [json.loads(line) for line in (reference_run.output / "history.jsonl").read_text().splitlines()]
    assert [g["generation"] for g in history] == [0, 1]
    assert history[-1]["best_ever"] == state["best_fitness"]
    assert history[0]["tokens"]["target"] > 0


def individuals_of(folder: RunFolder) -> dict[str, dict[str, Any]]:
    lines = (folder.output / "individuals.jsonl").read_text().splitlines()
    individuals = [json.loads(line) for line in lines]
    assert len({individual["node"] for individual in individuals}) == len(individuals)
    return {individual["node"]: individual for individual in individuals}


def test_the_deltas_and_the_scratchpad_of_every_node_are_kept(reference_run: RunFolder) -> None:
    individuals = individuals_of(reference_run)
    for name, after in individuals.items():
        if name.endswith("_mut"):
            before = individuals[name.replace("_mut", "_pre")]
            changed = [cluster for cluster in after["deltas"] if after["deltas"][cluster] != before["deltas"][cluster]]
            assert changed == [after["target"]] and after["scratchpad"] != before["scratchpad"]
    best = json.loads(reference_run.state())["best_individual"]
    assert best in [{"deltas": one["deltas"], "scratchpad": one["scratchpad"]} for one in individuals.values()]


def test_the_folder_and_the_processor_hold_the_hashes_of_the_model(reference_run: RunFolder) -> None:
    check = read_model(OutputFolder(reference_run.output))
    assert {"config": check.config, "tokenizer": check.tokenizer} == model_hashes(str(embedded_model()))
    text = (reference_run.output / "processor_best.py").read_text()
    assert check.config in text and check.tokenizer in text


def test_every_call_of_the_reflector_has_its_prompt_on_disk(reference_run: RunFolder) -> None:
    prompts = sorted(path.name for path in (reference_run.output / "reflector_prompts").iterdir())
    individuals = individuals_of(reference_run)
    mutated = {name for name in individuals if name.endswith("_mut")}
    parents = {name: {individuals[one]["scratchpad"] for one in it["parents"]} for name, it in individuals.items()}
    merged = {child for child, scratchpads in parents.items() if len(scratchpads - {""}) == 2}
    assert mutated
    assert merged
    for node in mutated:
        assert f"gen_{node[1]}_mutation_{node}.txt" in prompts
    assert {name for name in prompts if "_merge_" in name} == {f"gen_{node[1]}_merge_{node}.txt" for node in merged}
    text = (reference_run.output / "reflector_prompts" / prompts[0]).read_text()
    assert "===== system =====" in text
    assert "## " in text


def test_no_answer_is_computed_twice_but_the_plain_model_s_to_the_questions_that_order(
    reference_run: RunFolder,
) -> None:
    again = reference_run.repeated()
    assert len(again) == 3 and reference_run.repeated(twice=again) == []


def test_a_second_run_ends_in_the_same_state(reference_run: RunFolder, run_folder: RunFolder) -> None:
    done = run_folder.run()
    assert done.returncode == 0, done.stdout
    assert run_folder.state() == reference_run.state()
    assert run_folder.processes() == []


def test_a_finished_run_is_not_run_again_and_prints_its_result(reference_run: RunFolder) -> None:
    before = reference_run.state()
    calls = reference_run.answered("target_requests.jsonl")
    done = reference_run.run()
    assert done.returncode == 0, done.stdout
    assert (reference_run.output / "report.txt").read_text() in done.stdout
    assert reference_run.state() == before
    assert reference_run.answered("target_requests.jsonl") == calls


def test_a_run_does_not_continue_with_other_settings(reference_run: RunFolder) -> None:
    before = reference_run.state()
    done = reference_run.run(SHORTNESS_SCALE="77")
    assert done.returncode == 1
    assert "CONFIG_SHORTNESS_SCALE" in done.stdout
    assert "--fresh" in done.stdout
    assert reference_run.state() == before
