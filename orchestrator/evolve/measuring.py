"""Measuring systems on the farm: plans of candidates that no search made, and their graded answers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.evolve.setup import Examples
from orchestrator.evolve.systems import System
from orchestrator.farm.evaluator import FarmEvaluator
from orchestrator.report.statistics import JudgedAnswer, Measurement
from tasks.plan import Candidate, Evaluations, ExampleSet, Plan, StageRef
from tasks.records import Example
from tasks.store.keys import MEASURED, content_hash
from tasks.store.store import Store

Answers = tuple[JudgedAnswer, ...]


@dataclass
class Measurer:
    """Evaluates systems on the farm."""

    evaluate: FarmEvaluator
    examples: Examples

    @property
    def store(self) -> Store:
        return self.evaluate.dispatcher.store

    @property
    def run_id(self) -> str:
        return self.evaluate.dispatcher.run_id

    def measure(self, purpose: str, systems: Sequence[System], *sets: ExampleSet) -> list[System]:
        """The systems with what each set shows of them, from one plan of this purpose; what they have is not asked."""
        new = {one.name: one for one in systems}
        asked = [(one, which) for which in sets for one in systems if getattr(one, which) is None]
        found = self.answers(purpose, [one.candidate(which) for one, which in asked]) if asked else []
        for (one, which), given in zip(asked, found, strict=True):
            new[one.name] = new[one.name].measured(which, measurement_of(given))
        return list(new.values())

    def with_answers(self, purpose: str, systems: Sequence[System], which: ExampleSet) -> list[tuple[System, Answers]]:
        """The systems with what a set shows of them, all of which is asked, and their answers."""
        found = self.answers(purpose, [one.candidate(which) for one in systems]) if systems else []
        return [(one.measured(which, measurement_of(given)), given) for one, given in zip(systems, found, strict=True)]

    def answers(self, purpose: str, candidates: Sequence[Candidate]) -> list[Answers]:
        """The graded answers of each candidate.  The plan's records are dropped afterwards; the answers are not."""
        numbered = tuple(dataclasses.replace(candidate, index=i) for i, candidate in enumerate(candidates))
        plan = Plan(purpose, 0, numbered)
        outcomes = self.evaluate(plan)
        self._count(plan, sum((outcome.evaluations for outcome in outcomes), Evaluations()))
        found = [self._graded(plan, c, self.examples[c.examples]) for c in numbered]
        self.store.forget_plans(self.run_id, [plan.name])
        return found

    def _count(self, plan: Plan, found: Evaluations) -> None:
        """Once for each plan: a process that was killed before it had written its book evaluates the plan again."""
        cap = self.store.run(self.run_id).target.sampling.max_new_tokens
        counts = {content_hash(cap, plan.to_json()): dataclasses.asdict(found), **_counts(self.store, self.run_id)}
        self.store.put_metadata(self.run_id, MEASURED, json.dumps(counts))

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
                is_right=verdict["is_correct"],
                is_whole=answer["whole"],
                is_loop=answer["loop"],
                text=texts[answer["key"]]["text"],
                question=example.question,
                gold=example.gold,
                reasoning=reasons[verdict["key"]]["reasoning"],
            )
            for example, answer, verdict in zip(asked, answers, verdicts, strict=True)
        )


def measured_evaluations(store: Store, run_id: str) -> Evaluations:
    """What has been evaluated for a run outside of its search, in all its sessions."""
    return sum((Evaluations(**counts) for counts in _counts(store, run_id).values()), Evaluations())


def _counts(store: Store, run_id: str) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = json.loads(store.metadata(run_id, MEASURED) or "{}")
    return counts


def measurement_of(answers: Answers) -> Measurement:
    return Measurement(
        examples=tuple(one.example for one in answers),
        tokens=tuple(one.tokens for one in answers),
        right=tuple(one.is_right for one in answers),
        whole=tuple(one.is_whole for one in answers),
        loops=tuple(one.is_loop for one in answers),
    )
