"""From answers to a plan: what fits a budget, at which rates, and the settings that are written."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from orchestrator.estimate import Amount, Rates, RunEstimate
from orchestrator.init.asking import WrongAnswer
from orchestrator.init.budget import RunBudget
from orchestrator.init.config import free_folder
from orchestrator.init.fitting import BudgetTooSmall, fit
from orchestrator.init.judge import read_judge
from orchestrator.init.model import ModelChoice, read_model
from orchestrator.init.plan import Answers, Planner, rates_for
from orchestrator.init.questions import read_questions_file
from orchestrator.init.rates import Speed, assumed_rates, call_sizes, measured_rates
from orchestrator.settings import Settings, load_settings
from tasks.plan import ExampleSet

ROOT = Path(__file__).parents[3]
MANY: Mapping[ExampleSet, int] = {"training": 1000, "validation": 1000, "test": 1000}


def attempt(sizes: Mapping[ExampleSet, int], generations: int) -> RunEstimate:
    """A run takes an hour for each ten questions and generations, and costs as many dollars."""
    hours = sizes["training"] * generations / 10
    return RunEstimate((), 0, 0, 0, Amount(1800 * hours, 0, hours), Amount(3600 * hours, 0, 9 * hours))


def fitted(
    amount: float, unit: str, available: Mapping[ExampleSet, int] = MANY, on_cpu: bool = False
) -> tuple[int, int]:
    found = fit(RunBudget(amount, unit), available, attempt, on_cpu=on_cpu)  # type: ignore[arg-type]  # one of its words
    return found.sizes["training"], found.generations


def test_the_most_questions_come_first_and_then_the_most_generations() -> None:
    assert fitted(100, "hours") == (100, 10)
    assert fitted(59, "hours") == (60, 9)  # six generations of 100 questions take 60 hours
    assert fitted(1000, "hours") == (100, 30)
    assert fitted(6, "hours") == (10, 6)
    assert fitted(3, "hours") == (10, 3)


def test_a_cpu_gets_fewer_questions_and_a_small_file_no_more_than_it_has() -> None:
    assert fitted(100, "hours", on_cpu=True) == (24, 30)
    assert fitted(100, "hours", {"training": 13, "validation": 9, "test": 9}) == (13, 30)


def test_money_is_as_expected_and_half_as_much_again() -> None:
    assert fitted(90, "dollars") == (100, 6)
    assert fitted(89, "dollars") == (60, 9)


def test_evaluations_are_generations_of_ten() -> None:
    assert fitted(65, "evaluations") == (100, 6)
    with pytest.raises(BudgetTooSmall):
        fitted(9, "evaluations")


def test_what_does_not_fit_names_the_smallest_run() -> None:
    with pytest.raises(BudgetTooSmall) as error:
        fitted(1, "hours")
    assert error.value.smallest.most.seconds == 2 * 3600


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    monkeypatch.chdir(ROOT)
    questions = read_questions_file("configs/data/sample_questions.jsonl")
    return Answers(read_model("embedded"), questions, read_judge("rules", []))


@pytest.fixture
def settings(answers: Answers) -> Settings:
    return answers.settings({"training": 24, "validation": 40, "test": 40}, 5, 0.0, Path("outputs/x"))


def test_the_settings_are_those_of_the_answers(settings: Settings) -> None:
    assert (settings.ngen, settings.training_split, settings.validation_indices) == (5, "train", "0-39")
    assert (settings.target_engine, settings.judge, settings.embedded_endpoint) == ("embedded", "three_stages", "rules")


def test_only_where_short_right_answers_are_known_the_end_of_a_turn_is_raised_far(
    answers: Answers, settings: Settings, tmp_path: Path
) -> None:
    # the embedded model on the sample has what `make evolve` has
    evolve = load_settings(ROOT / "configs" / "cma.config")
    assert (settings.steered_min_new_tokens, settings.delta_bound) == (15, 18.0)
    assert (evolve.steered_min_new_tokens, evolve.delta_bound) == (15, 18.0)
    # other questions, or another model, have no least number and Kconfig's bound
    copied = tmp_path / "questions.jsonl"
    copied.write_bytes(Path("configs/data/sample_questions.jsonl").read_bytes().replace(b"What was", b"How high was"))
    others = dataclasses.replace(answers, questions=read_questions_file(str(copied)))
    elsewhere = dataclasses.replace(answers, model=ModelChoice({**answers.model.options, "TARGET_MODEL": "m"}, ""))
    for one in (others, elsewhere):
        found = one.settings({"training": 24, "validation": 40, "test": 40}, 5, 0.0, Path("outputs/x"))
        assert (found.steered_min_new_tokens, found.delta_bound) == (0, 8.0)


def test_a_plan_stays_within_the_time_and_says_when_nothing_does(answers: Answers, settings: Settings) -> None:
    rates = rates_for(settings, answers, print, measure=False)
    planner = Planner(settings, answers, rates)
    plan = planner.plan(RunBudget(0.5, "hours"))
    assert plan.estimate.most.seconds <= 1800 < 2.5 * plan.estimate.most.seconds
    with pytest.raises(WrongAnswer, match="the smallest run takes up to"):
        planner.plan(RunBudget(0.01, "hours"))
    with pytest.raises(WrongAnswer, match="5 evaluations: the smallest search has 10"):
        planner.plan(RunBudget(5, "evaluations"))


def test_rates_follow_from_what_was_measured(settings: Settings) -> None:
    found = measured_rates(Speed(20.0, 10.0, 7.0, 12.0, 4, ((50, 70), (20, 10))), settings)
    # A token of the longest answer takes 0.1 s, so at the end of a plan the longest one is alone for 32.5 tokens
    assert found.overhead_s == pytest.approx(1 + 3.25) and found.prompt_s == pytest.approx(3 / 4)
    # And 600 tokens took the rest of the 12 s
    assert found.token_s == pytest.approx((12 - 3.25) / 600)
    assert (found.tokens["plain"], found.tokens["prompts"], found.tokens["searched"]) == (60, 37.5, 33.75)
    assert "measured on this machine: 69 tokens a second" in found.source
    assert isinstance(assumed_rates(settings), Rates) and "assumed" in assumed_rates(settings).source


def test_a_measurement_that_was_disturbed_gives_a_rate_that_a_server_can_have(settings: Settings) -> None:
    """Fewer than one token a step for each answer in flight, and no division by answers without a token."""
    fast = measured_rates(Speed(20.0, 9.0, 6.4, 0.1, 4, ((50, 64),)), settings)
    assert fast.token_s == pytest.approx(0.1 / settings.target_concurrency)
    assert measured_rates(Speed(20.0, 9.0, 6.0, 6.0, 4, ((0,),)), settings).tokens["plain"] == 0


def test_rules_cost_nothing_and_a_model_reads_question_gold_and_answer(answers: Answers, settings: Settings) -> None:
    examples = answers.questions.examples["training"]
    assert call_sizes(settings, examples, 40).verdict is None
    paid = Answers(answers.model, answers.questions, read_judge("gpt-4o", []))
    with_model = paid.settings({"training": 24, "validation": 40, "test": 40}, 5, 1.0, Path("outputs/x"))
    size = call_sizes(with_model, examples, 40).verdict
    assert size is not None and 300 < size.prompt < size.most_prompt < 2000
    assert size.most_reply == with_model.judge_max_completion_tokens and 0.2 <= size.share < 1


def test_a_folder_with_a_run_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert free_folder() == Path("outputs/run")
    (tmp_path / "outputs" / "run").mkdir(parents=True)
    assert free_folder() == Path("outputs/run-2")
