"""A whole run on a farm of real workers whose stages are simulated: from the prompts to report.json."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from farm_bench import until
from simulated_evolve import finish, start_evolve
from simulated_measurer import Respond, SimulatedMeasurer
from simulated_run import RUN, Driver

from orchestrator.optimisers.base import Best
from orchestrator.output import OutputFolder, run_id_of
from orchestrator.report.figures import ReportFigures
from orchestrator.runs.baselines import ensure_baselines
from orchestrator.runs.final import Closing
from orchestrator.runs.vectors import Steered, Vectors
from orchestrator.settings import load_settings
from tasks.plan import Candidate
from tasks.store.keys import CLUSTERING
from tasks.store.store import Store
from tasks.validation import parse_json

OPTIONS = {
    "OPTIMISER": "reflective", "POPULATION_SIZE": "4", "NGEN": "2",
    "OBJECTIVE": "constrained", "TARGET_SYSTEM_PROMPT": "best", "PROMPTS_PATH": "shipped", "TOO_LONG": "error",
    "CLUSTERS_BY": "meaning", "INITIAL_DELTAS_PATH": "zero",
    "TRAINING": "train[0:12]", "VALIDATION": "validation[0:16]", "TEST": "test[0:6]",
}  # fmt: skip
PROMPTS = """\
base: "Answer."
prompts:
  - {name: none, text: ""}
  - {name: short, text: "Be concise."}
"""
BASE = "Answer the question using the provided context."


def evolve(farm: Any, output: Path, **options: str) -> subprocess.Popen[str]:
    return start_evolve(farm.url, output, {**OPTIONS, **options})


def report_of(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "report.json").read_text())
    parse_json(ReportFigures, json.dumps(document))
    return document


def lengths_asked_with(store: Store, run_id: str) -> list[str]:
    """The system prompts with which the lengths of the questions were measured."""
    jobs = store.redis.hgetall(f"whetstone:run:{run_id}:plan:jobs")
    specs = [json.loads(text) for name, text in jobs.items() if name.startswith(b"lengths:")]  # type: ignore[union-attr]
    return [spec["arguments"]["target"]["system_prompt"] for spec in specs]


@pytest.fixture
def farm(driver: Driver, simulated_farm: Any) -> Any:
    """A farm whose answers are half as long with "concise" in the prompt, and all right."""
    driver.set_signal("vary", "answer", "each")
    return simulated_farm


def test_a_run_goes_from_the_prompts_to_the_report(driver: Driver, farm: Any, tmp_path: Path) -> None:
    output = tmp_path / "whole"
    said = finish(evolve(farm, output))
    run_id = run_id_of(output)
    # The search has started from the best prompt, and its candidates were asked with it
    baselines = json.loads((output / "baselines.json").read_text())
    assert (baselines["best_prompt"], baselines["held_out"], len(baselines["systems"])) == ("concise", "validation", 14)
    assert driver.store.run(run_id).target.system_prompt == f"{BASE} Be concise."
    first = json.loads((output / "history.jsonl").read_text().splitlines()[0])["population"][0]
    assert first["mean_tokens"] < sum(baselines["plain"]["tokens"]) / 12
    # No model was asked with the word "best", and all questions fit with the longest prompt
    longest = max((system["system_prompt"] for system in baselines["systems"]), key=len)
    assert lengths_asked_with(driver.store, run_id) == [longest]
    # The report compares the plain model, the prompts, the vectors without search and the finalists
    report = report_of(output)
    assert (report["start"], report["test_uses"], report["conclusion"]["measured_on"]) == ("concise", 1, "test")
    assert {one["name"] for one in report["rivals"]} == {
        *(system["name"] for system in baselines["systems"][1:]), "end of turn alone",
    } - {report["winner"]}  # fmt: skip
    tested = {one["name"] for one in (*report["systems"], *report["rivals"]) if one["test"] is not None}
    assert tested == {"none", "concise", "end of turn alone", report["winner"]}
    assert report["validation"]["zero"]["n"] == 16 and report["test"]["best"]["n"] == 6
    kept = [json.loads(line) for line in (output / "measurements.jsonl").read_text().splitlines()]
    assert {line["system"] for line in kept if line["set"] == "test"} == tested
    # The four finalists, and none twice: what won over them is one of the others
    assert [one["kind"] for one in report["systems"]].count("evolved") == 4
    names = [one["name"] for one in (*report["systems"], *report["rivals"])]
    assert len(names) == len(set(names))
    # What is taken away is the winner, with its system prompt
    [winner] = [one for one in report["systems"] if one["name"] == report["winner"]]
    assert list(json.loads((output / "deltas_best.json").read_text()).values()) == winner["deltas"]
    assert json.loads((output / "processor_best.py").read_text()) == winner["deltas"]
    assert (output / "system_prompt.txt").read_text() == winner["system_prompt"] == f"{BASE} Be concise."
    assert (output / "pareto.png").exists() and json.loads((output / "pareto.json").read_text())["points"]
    assert report["verdict"] in " ".join(said.split())
    assert "validation set, on which the winner was chosen" in said and "test set, asked after all choices" in said

    # When the same command is given again, then the same winner is tested, which counts once
    finish(evolve(farm, output))
    assert report_of(output) == report
    # When it goes on, then the baselines stay, and the test set is used once more only for another winner
    finish(evolve(farm, output, NGEN="5"))
    after = report_of(output)
    assert after["test_uses"] == 1 + (after["winner"] != report["winner"])
    assert json.loads((output / "baselines.json").read_text()) == baselines


FEW = {"TRAINING": "train[0:2]", "VALIDATION": "validation[0:2]", "INITIAL_DELTAS_PATH": "best"}
"""So few questions that no sentence is shown to be better than none: the plain prompt stays."""


@pytest.mark.parametrize(
    ("node", "changed", "prompt"),
    [
        ("g0_pop0", {}, "Answer. Be concise."),
        ("lines1", {"TRAINING": "train[0:32]"}, "Answer. Be concise."),
        ("g0_pop0", FEW, "Answer."),
    ],
)
def test_a_run_that_is_killed_between_baselines_and_search_keeps_its_start(
    driver: Driver, farm: Any, tmp_path: Path, node: str, changed: dict[str, str], prompt: str
) -> None:
    prompts = tmp_path / "prompts.yaml"
    prompts.write_text(PROMPTS)
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    options = {"PROMPTS_PATH": str(prompts), **changed}
    finish(evolve(farm, calm, **options))
    assert json.loads((calm / "baselines.json").read_text())["best_prompt"] == "short"
    # Given a run that is killed when its baselines are known: in the first answers of its search, or among the vectors
    # without search
    driver.set_signal("hold", "answer", node)
    began = driver.began("answer", node)
    process = evolve(farm, killed, **options)
    until(lambda: driver.began("answer", node) > began, 60)
    process.kill()
    process.communicate()
    assert (killed / "baselines.json").exists() and not (killed / "evolution_state.json").exists()
    # When the file of prompts changes, and the run goes on
    prompts.write_text(PROMPTS.replace("Be concise.", "Explain everything."))
    driver.clear_signal("hold", "answer", node)
    finish(evolve(farm, killed, **options))
    # Then it has the start that it had, and ends as the other one
    assert driver.store.run(run_id_of(killed)).target.system_prompt == prompt
    evolved = [one for one in report_of(killed)["systems"] if one["kind"] == "evolved"]
    assert {one["system_prompt"] for one in evolved} == {prompt}
    for file in ("baselines.json", "evolution_state.json", "individuals.jsonl", "deltas_best.json", "pareto.json"):
        assert (killed / file).read_bytes() == (calm / file).read_bytes(), file
    assert report_of(killed)["rivals"] == report_of(calm)["rivals"]
    after, undisturbed = (json.loads((folder / "vectors.json").read_text()) for folder in (killed, calm))
    assert (after["best"], after["start"]) == (undisturbed["best"], undisturbed["start"]) and after["best"]


def test_without_validation_and_test_set_the_training_set_is_compared(farm: Any, tmp_path: Path) -> None:
    output = tmp_path / "training"
    said = finish(evolve(farm, output, VALIDATION="", TEST="", PROMPTS_PATH="", TARGET_SYSTEM_PROMPT="Answer."))
    assert "training set, on which the winner was chosen" in said and "test set" not in said
    assert not (output / "report.json").exists() and (output / "report.txt").exists()


ZERO = Steered("short", (0.0, 0.0))
LINES = {"end of turn alone": Steered("short", (2.0, 0.0)), "log-odds alone": Steered("short", (0.0, -2.0))}


@pytest.fixture
def closing(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Closing]:
    """A search that has ended, in a folder of which only the state is left: "concise" halves the tokens."""
    monkeypatch.chdir(Path(__file__).parents[3])
    prompts = tmp_path / "prompts.yaml"
    prompts.write_text(PROMPTS)

    def end(respond: Respond, vectors: Vectors, **more: str) -> Closing:
        options = {**OPTIONS, "PROMPTS_PATH": str(prompts), "FARM": "redis://127.0.0.1", **more}
        settings = load_settings(Path("configs/embedded.config"), [f"{name}={text}" for name, text in options.items()])
        measurer = SimulatedMeasurer(
            lambda candidate, number: (20 if "concise" in str(candidate.system_prompt) else 40, True),
            store, training=12, validation=100, test=100,
        )  # fmt: skip
        baselines = ensure_baselines(measurer, settings, OutputFolder(tmp_path))
        store.put_run(baselines.run(RUN, settings, vectors.start.prompt))
        store.put_examples(RUN.id, measurer.examples)
        store.put_metadata(RUN.id, CLUSTERING, "0" * 32)
        measurer.respond = respond
        return Closing(measurer, settings, baselines, vectors, OutputFolder(tmp_path), 3)

    return end


def test_a_best_whose_lines_are_lost_is_a_finalist_and_loses_to_the_start_that_it_equals(
    closing: Callable[..., Closing],
) -> None:
    # given a search whose best changes no answer
    ended = closing(
        lambda candidate, number: (40 if candidate.system_prompt == "Answer." else 20, True), Vectors({}, ZERO)
    )
    # when
    final = ended.conclude(Best((1.0, -1.0), "", 1.2), ZERO.deltas)
    # then
    assert [s.name for s in final.systems] == ["none", "short", "best so far"]
    assert (final.winner.name, final.winner.kind, final.winner.deltas) == ("short", "prompt", (0.0, 0.0))
    assert final.assessment is not None and final.assessment.conclusion.outcome == "prompt_suffices"


@pytest.mark.parametrize(("initial", "winner"), [("best", "log-odds alone"), ("zero", "best so far")])
def test_a_vector_without_search_wins_only_where_the_search_started_from_it(
    closing: Callable[..., Closing], initial: str, winner: str
) -> None:
    # given a vector without search with answers of 8 tokens, a search whose best has 12, and a rival of both with 6
    lengths = {(0.0, -2.0): 8, (1.0, -1.0): 12, (2.0, 0.0): 6}

    def respond(candidate: Candidate, _: int) -> tuple[int, bool]:
        return 40 if candidate.system_prompt == "Answer." else lengths.get(candidate.deltas, 20), True

    start = LINES["log-odds alone"] if initial == "best" else ZERO
    ended = closing(respond, Vectors(LINES, start), INITIAL_DELTAS_PATH=initial, CLUSTERS_BY="waste")
    # when
    final = ended.conclude(Best((1.0, -1.0), "", 1.2), start.deltas)
    # then the rivals are in the report once, as what they are, also the one that won
    names = [s.name for s in final.systems]
    assert names == ["none", "short", "end of turn alone", "log-odds alone", "best so far"]
    assert final.winner.name == winner and final.winner in final.systems
    assert final.assessment is not None
    assert final.assessment.conclusion.outcome == "vector_suffices"
