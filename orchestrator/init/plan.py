"""What the answers come to: rates of the target, and the largest run within the budget."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.estimate import Rates, RunEstimate, estimate_run
from orchestrator.farm.speed import NotMeasured, measure_speed
from orchestrator.init.asking import WrongAnswer
from orchestrator.init.budget import RunBudget
from orchestrator.init.config import settings_of
from orchestrator.init.fitting import MOST_GENERATIONS, POPULATION, BudgetTooSmall, FittedRun, fit
from orchestrator.init.judge import JudgeChoice
from orchestrator.init.model import ModelChoice
from orchestrator.init.questions import QuestionsChoice
from orchestrator.init.rates import assumed_rates, call_sizes, measured_rates
from orchestrator.report.formatting import format_duration, format_money
from orchestrator.run_parts import parts_of, planned_work
from orchestrator.runs.search import make_search
from orchestrator.settings import Settings
from orchestrator.settings.brevity import prompts_of
from orchestrator.settings.run import endpoint_of, make_run
from tasks.plan import ExampleSet

ASKED_PROMPTS, ASKED_QUESTIONS = 8, 4
"""With how many system prompts and questions a target is measured."""


@dataclass(frozen=True)
class Answers:
    """The first three answers."""

    model: ModelChoice
    questions: QuestionsChoice
    judge: JudgeChoice

    def settings(self, sizes: Mapping[ExampleSet, int], generations: int, budget_usd: float, folder: Path) -> Settings:
        """Raises: SettingsError."""
        options = {**self.model.options, **self.questions.with_sizes(sizes), **self.judge.options}
        return settings_of(options, generations, budget_usd, folder)


def rates_for(settings: Settings, answers: Answers, notify: Callable[[str], None], *, measure: bool) -> Rates:
    """Measured where the target can be reached from here, which is on this CPU or at an address; else assumed."""
    if not measure or not (answers.model.is_on_cpu or settings.sglang_url):
        return assumed_rates(settings)
    prompts = list(prompts_of(settings).values())
    spread = prompts[:: math.ceil(len(prompts) / ASKED_PROMPTS)]
    try:
        target = make_run(settings, "").target
        speed = measure_speed(target, spread, answers.questions.examples["training"][:ASKED_QUESTIONS])
    except NotMeasured as error:
        notify(f"not measured: {error}")
        return assumed_rates(settings)
    return measured_rates(speed, settings)


@dataclass(frozen=True)
class Planner:
    """Estimates runs that differ in the number of questions and generations.  `settings` are of any of them."""

    settings: Settings
    answers: Answers
    rates: Rates

    def plan(self, budget: RunBudget) -> FittedRun:
        """Raises: WrongAnswer where nothing fits."""
        search = make_search(dataclasses.replace(self.settings, ngen=MOST_GENERATIONS))
        works = planned_work(search)
        calls = call_sizes(self.settings, self.answers.questions.examples["training"], self.rates.tokens["searched"])
        endpoint, prompts = endpoint_of(self.settings), len(prompts_of(self.settings))

        def attempt(sizes: Mapping[ExampleSet, int], generations: int) -> RunEstimate:
            parts = parts_of(self.settings, works, generations, sizes, prompts)
            return estimate_run(parts, self.settings, self.rates, calls, endpoint)

        try:
            return fit(budget, self.answers.questions.sizes(), attempt, on_cpu=self.answers.model.is_on_cpu)
        except BudgetTooSmall as error:
            if budget.unit == "evaluations":
                raise WrongAnswer(f"{budget}: the smallest search has {POPULATION}") from None
            least = error.smallest.most
            money = "" if not least.dollars else f" and {format_money(least.dollars)}"
            raise WrongAnswer(
                f"{budget} is too little: the smallest run takes up to {format_duration(least.seconds)}{money}"
            ) from None
