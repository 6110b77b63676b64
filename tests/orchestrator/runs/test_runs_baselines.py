"""The prompts that are measured before a search: kept in a file, and the best one never changes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from simulated_measurer import SimulatedMeasurer
from simulated_run import RUN

from orchestrator.output import OutputFolder
from orchestrator.report.assessment import noise_from_repeats
from orchestrator.runs.baselines import ensure_baselines, read_baselines
from orchestrator.runs.final import Closing
from orchestrator.runs.vectors import Steered, Vectors
from orchestrator.settings import Settings, load_settings, make_run
from orchestrator.settings.references import FORK, FORK_FILE
from tasks.models import Constrained
from tasks.plan import Candidate

ROOT = Path(__file__).parents[3]
FILE = """\
base: "Answer."
prompts:
  - {name: none, text: ""}
  - {name: short, text: "Be brief."}
  - {name: shorter, text: "Hurry."}
  - {name: wordy, text: "Explain everything at length."}
"""
LENGTHS = {"Answer.": 100, "Answer. Be brief.": 60, "Answer. Hurry.": 30, "Answer. Explain everything at length.": 200}


@pytest.fixture
def prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(ROOT)
    path = tmp_path / "prompts.yaml"
    path.write_text(FILE)
    return path


@pytest.fixture
def output(tmp_path: Path) -> OutputFolder:
    folder = OutputFolder(tmp_path / "run")
    folder.path.mkdir()
    return folder


def settings_of(prompts: Path, *overrides: str) -> Settings:
    options = [
        "TARGET_SYSTEM_PROMPT=best", f"PROMPTS_PATH={prompts}", "OBJECTIVE=constrained",
        "MARGIN=0.03", "JUDGE=three_stages",
    ]  # fmt: skip
    chosen = dict(option.split("=", 1) for option in (*options, *overrides))  # of one that is repeated the last
    return load_settings(Path("configs/embedded.config"), chosen)


def respond(candidate: Candidate, number: int) -> tuple[int, bool]:
    """ "Hurry." gets one answer in ten wrong."""
    prompt = candidate.system_prompt or ""
    return LENGTHS[prompt], not ("Hurry" in prompt and number % 10 == 0)


def turned(candidate: Candidate, number: int) -> tuple[int, bool]:
    """As another judge has it: "Hurry." is always right, and "Be brief." never."""
    return LENGTHS[candidate.system_prompt or ""], "brief" not in (candidate.system_prompt or "")


def measurer(respond: Any = respond, **sets: int) -> SimulatedMeasurer:
    return SimulatedMeasurer(respond, **(sets or {"training": 10, "validation": 40, "test": 5}))


def test_the_best_prompt_is_the_shortest_that_is_as_good_as_the_one_with_the_most_right(
    prompts: Path, output: OutputFolder
) -> None:
    settings = settings_of(prompts)
    found = ensure_baselines(measurer(), settings, output)
    assert (found.best_prompt, found.held_out) == ("short", "validation")
    # The run has its prompt, and the objective is relative to the plain model's answers on the training set
    run = found.run(make_run(settings, "run"), settings, "short")
    assert run.target.system_prompt == "Answer. Be brief."
    assert run.objective == Constrained(100.0, 1.0)
    # The systems are compared with the plain model
    assert found.objective(settings) == Constrained(100.0, 1.0)


@pytest.mark.parametrize(("margin", "start"), [("0.03", "short"), ("0.05", "shorter")])
def test_the_best_prompt_may_lose_half_of_the_margin(
    prompts: Path, output: OutputFolder, margin: str, start: str
) -> None:
    # given 50 answers, of which the shorter prompt has one wrong
    def lossy(candidate: Candidate, number: int) -> tuple[int, bool]:
        prompt = candidate.system_prompt or ""
        return LENGTHS[prompt], not ("Hurry" in prompt and candidate.examples == "validation" and number == 0)

    found = ensure_baselines(measurer(lossy), settings_of(prompts, f"MARGIN={margin}"), output)
    assert found.best_prompt == start


def test_on_a_harder_validation_set_the_objective_is_relative_to_what_is_right_there(
    prompts: Path, output: OutputFolder
) -> None:
    def harder(candidate: Candidate, number: int) -> tuple[int, bool]:
        return respond(candidate, number)[0], candidate.examples == "training" or number % 2 == 0

    settings = settings_of(prompts)
    found = ensure_baselines(measurer(harder), settings, output)
    assert found.run(RUN, settings, "none").objective == Constrained(100.0, 1.0)
    assert found.objective(settings) == Constrained(100.0, 0.5)


@pytest.mark.parametrize(("temperature", "measured"), [("0", 0), ("0.7", 2)])
@pytest.mark.parametrize("delta", [2.0, 0.0])
def test_where_answers_are_sampled_the_start_is_measured_as_often_as_the_finalists(
    prompts: Path, output: OutputFolder, temperature: str, measured: int, delta: float
) -> None:
    # given baselines that were measured once, and a search from the best vector, which is one or zeros
    settings = settings_of(
        prompts, f"TARGET_TEMPERATURE={temperature}", "INITIAL_DELTAS_PATH=best", "CLUSTERS_BY=waste"
    )
    found, deltas = ensure_baselines(measurer(), settings, output), (delta, 0.0)
    name, again = "end of turn alone" if delta else "short", measurer()
    vectors = Vectors({}, Steered("short", deltas))
    raised = dataclasses.replace(found.system("short"), name=name, kind="vector", deltas=deltas)
    other = dataclasses.replace(found.system("none"), name="with another prompt", kind="vector", deltas=deltas)
    # when
    closing = Closing(again, settings, found, vectors, output, 3)
    start = closing.start(deltas, [other, raised], found.objective(settings))
    # then
    asked = [candidate for _, plan in again.asked for candidate in plan]
    assert [(c.system_prompt, c.deltas, c.examples, c.repeat) for c in asked] == [
        ("Answer. Be brief.", deltas, "validation", 1 + i) for i in range(measured)
    ]
    assert start is not None and (start.name, start.deltas, len(start.repeats)) == (name, deltas, measured)
    # and where it wins it has a noise floor
    assert (noise_from_repeats(start) is not None) == bool(measured)


def test_a_prompt_that_the_settings_name_is_the_best_whatever_is_shorter(prompts: Path, output: OutputFolder) -> None:
    settings = settings_of(prompts, "TARGET_SYSTEM_PROMPT=Answer.")
    found = ensure_baselines(measurer(), settings, output)
    assert found.best_prompt == "none"


def test_a_stopped_run_goes_on_with_what_is_in_the_file(prompts: Path, output: OutputFolder) -> None:
    settings = settings_of(prompts)
    first = ensure_baselines(measurer(), settings, output)
    assert read_baselines(output) == first
    # When it goes on, then nothing is asked
    again = measurer(turned)
    assert ensure_baselines(again, settings, output) == first
    assert again.asked == []


def test_without_a_validation_set_the_training_set_chooses(prompts: Path, output: OutputFolder) -> None:
    found = ensure_baselines(measurer(training=40), settings_of(prompts), output)
    assert (found.held_out, found.best_prompt) == ("training", "short")


@pytest.mark.parametrize(
    ("prompt", "start"), [("none", "none"), ("shorter", "shorter"), ("gone", "short"), ("", "short")]
)
def test_a_fork_keeps_the_prompt_of_its_origin_where_it_still_exists(
    prompts: Path, output: OutputFolder, prompt: str, start: str
) -> None:
    output.write_state(FORK_FILE, {"run": "r", "folder": "f", "at": "generation 1", "prompt": prompt, "population": []})
    forked = dataclasses.replace(settings_of(prompts), initial_deltas_path=FORK)
    found = ensure_baselines(measurer(), forked, output)
    assert found.best_prompt == start
    assert found.system(start).validation is not None
    # and one with a prompt of its own has that
    own = OutputFolder(output.path / "own")
    settings = dataclasses.replace(settings_of(prompts, "TARGET_SYSTEM_PROMPT=Answer."), initial_deltas_path=FORK)
    assert ensure_baselines(measurer(), settings, own).best_prompt == "none"
