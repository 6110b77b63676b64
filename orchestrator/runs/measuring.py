"""Measuring systems on the farm: plans of candidates that no search made, and their graded answers.

A system is a system prompt with deltas.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.dispatch.evaluator import FarmEvaluator
from orchestrator.report.statistics import JudgedAnswer
from orchestrator.report.systems import Measurement
from tasks.models import Example, Objective, Score
from tasks.objective import fitness_of
from tasks.plan import Candidate, Evaluations, Plan, StageRef
from tasks.store.store import Store

Answers = tuple[JudgedAnswer, ...]

CLOSING_PLANS = ("vectors", "finalists", "test", "final")
"""The names of the plans after a search."""
PLANS = ("prompts", "lines", "reference", *CLOSING_PLANS)
"""The names of all plans that no search makes."""


def is_of_search(plan: Plan) -> bool:
    return plan.name not in PLANS


@dataclass
class Measurer:
    """Evaluates candidates on the farm.  `evaluations` counts what it has evaluated in this session."""

    evaluate: FarmEvaluator
    examples: Mapping[str, Sequence[Example]]
    evaluations: Evaluations = field(default_factory=Evaluations)

    @property
    def store(self) -> Store:
        return self.evaluate.dispatcher.store

    @property
    def run_id(self) -> str:
        return self.evaluate.dispatcher.run_id

    def answers(self, name: str, generation: int, candidates: Sequence[Candidate]) -> list[Answers]:
        """The graded answers of each candidate, from a plan of this name.

        The candidates are numbered anew, in their order.  The plan's records are dropped; the answers are not.
        """
        numbered = tuple(dataclasses.replace(candidate, index=i) for i, candidate in enumerate(candidates))
        plan = Plan(name, generation, numbered)
        outcomes = self.evaluate(plan)
        self.evaluations += sum((outcome.evaluations for outcome in outcomes), Evaluations())
        found = [self._graded(plan, c, self.examples[c.examples]) for c in numbered]
        self.store.forget_plans(self.run_id, [name])
        return found

    def _graded(self, plan: Plan, candidate: Candidate, asked: Sequence[Example]) -> Answers:
        """A candidate's answers with their verdicts, as the record and the shared results have them."""
        store, run_id = self.store, self.run_id
        answers = (store.stage(run_id, plan.name, StageRef(candidate.index, "answer", "pre").field) or {})["answers"]
        verdicts = (store.stage(run_id, plan.name, StageRef(candidate.index, "judge", "pre").field) or {})["verdicts"]
        texts = store.shared(run_id, [a["key"] for a in answers])
        reasons = store.shared(run_id, [v["key"] for v in verdicts])
        return tuple(
            JudgedAnswer(
                example=example.id,
                tokens=answer["tokens"],
                is_correct=verdict["is_correct"] and answer["whole"],
                text=texts[answer["key"]]["text"],
                question=example.question,
                gold=example.gold,
                reasoning=reasons[verdict["key"]]["reasoning"],
            )
            for example, answer, verdict in zip(asked, answers, verdicts, strict=True)
        )


def measurement_of(answers: Answers, objective: Objective) -> Measurement:
    """Tokens, verdicts and fitness of a system's answers."""
    tokens = tuple(answer.tokens for answer in answers)
    correct = tuple(answer.is_correct for answer in answers)
    fitness = fitness_of(sum(tokens) / len(tokens), sum(correct) / len(correct), objective)
    return Measurement(tuple(answer.example for answer in answers), tokens, correct, fitness)


def baseline_score(answers: Answers) -> Score:
    """What an objective must know of its baseline: mean tokens, and the share of right answers."""
    count = len(answers)
    return Score(0.0, 0.0, sum(a.is_correct for a in answers) / count, sum(a.tokens for a in answers) / count)
