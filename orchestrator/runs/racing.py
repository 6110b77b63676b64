"""Racing on the farm: the candidates of a plan answer a part of the questions first, and the worse ones stop.

Each look at the field is a plan of its own, a rung: the candidates that are still in the race, and the first questions
of the order that all candidates share.  Answers that an earlier rung has asked for are in the store and are not
generated again.  The plan itself comes last, with the candidates that have reached it.  The others have a score that
is projected from the answers that they gave.

All decisions follow from the plan, the best so far and the answers, so an interrupted race continues as it was.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.dispatch.evaluator import FarmEvaluator
from orchestrator.optimisers.base import Evaluate
from orchestrator.optimisers.racing import Partial, Race, front_survivors, make_race, projected, survivors
from tasks.models import Objective, Score
from tasks.objective import additive_fitness_of, fitness_of, shortness_of
from tasks.plan import Candidate, Evaluations, Outcome, Plan, StageRef, rung_name

LEVEL = 0.9
"""Of each decision.  A candidate that stops wrongly still has its projected score, so more caution does not pay."""
TOLERANCE = 0.05
"""Of the front: with none, a candidate would stop only where the right answers of another are surely no fewer."""
Partials = Callable[[Plan], Mapping[int, Partial]]
"""What the candidates of an evaluated plan have answered, by index."""


@dataclass(frozen=True)
class Racing:
    """Evaluates plans by racing.

    places: how many candidates win; 0 for all on the front between few tokens and many right answers.
    """

    evaluate: Evaluate
    partials: Partials
    race: Race
    places: int
    objective: Objective

    def __call__(self, plan: Plan, reference: Sequence[float]) -> list[Outcome]:
        """The outcomes of all candidates, in their order.

        `reference` are the deltas of the best so far, or the first ones: they answer all questions in the first rung,
        take part in the race, and are what the others are projected from.
        Raises: whatever `evaluate` raises.
        """
        raced = [candidate for candidate in plan.candidates if is_raced(candidate)]
        if len(self.race.rungs) < 2 or len(raced) <= max(self.places, 1):
            return list(self.evaluate(plan))
        heat = _Heat(plan, _reference(plan, raced, reference))
        going = [candidate for candidate in raced if candidate.index != heat.reference.index]
        for number, count in enumerate(self.race.rungs[:-1], start=1):
            if not going:
                break
            rung = _rung(plan, number, [dataclasses.replace(c, questions=count) for c in going])
            if number == 1:
                whole = dataclasses.replace(heat.reference, questions=self.race.total)
                rung = dataclasses.replace(rung, candidates=(whole, *rung.candidates))
            heat.take(self.evaluate(rung), self.partials(rung))
            staying = self._staying(heat.seen)
            going = [candidate for candidate in going if candidate.index in staying]
        stopped = {c.index for c in raced} - {c.index for c in going} - {heat.reference.index}
        return self._outcomes(heat, stopped)

    def _staying(self, seen: Mapping[int, Partial]) -> frozenset[int]:
        if not self.places:
            return front_survivors(seen, self.race)
        value = lambda tokens, correct: additive_fitness_of(tokens, correct, self.objective)  # noqa: E731
        return survivors(seen, self.places, self.race, value)

    def _outcomes(self, heat: _Heat, stopped: set[int]) -> list[Outcome]:
        remaining = tuple(c for c in heat.plan.candidates if c.index not in stopped)
        last = dataclasses.replace(heat.plan, candidates=remaining)
        complete = {o.index: heat.with_rungs(o) for o in (self.evaluate(last) if remaining else ())}
        scores = [score for o in complete.values() for score in (o.pre, o.mut) if score is not None]
        highest = max([self._score(heat.known), *scores], key=lambda score: score.fitness).fitness
        return [
            complete[c.index] if c.index in complete else self._stopped(heat, c, highest) for c in heat.plan.candidates
        ]

    def _stopped(self, heat: _Heat, candidate: Candidate, highest: float) -> Outcome:
        """The outcome of a candidate that stopped.  Its fitness is below the highest that was measured in full."""
        partial = heat.seen[candidate.index]
        score = self._score(partial, heat.known)
        capped = min(score.fitness, math.nextafter(highest, -math.inf))
        return heat.with_rungs(
            Outcome(
                candidate.index,
                candidate.scratchpad,
                dataclasses.replace(score, fitness=capped),
                None,
                candidate.scratchpad,
                None,
                {},
                stopped=(len(partial), self.race.total),
            )
        )

    def _score(self, partial: Partial, known: Partial | None = None) -> Score:
        """The score on all questions; of an incomplete candidate as projected from one that is `known`."""
        tokens, correct = partial.means(len(partial)) if known is None else projected(partial, known)
        fitness = fitness_of(tokens, correct, self.objective)
        return Score(fitness, shortness_of(tokens, self.objective), correct, tokens)


def search_race(questions: int) -> Race:
    """The race of a search over so many questions."""
    return dataclasses.replace(make_race(questions, level=LEVEL), tolerance=TOLERANCE)


def farm_racing(evaluate: FarmEvaluator, questions: int, places: int) -> Racing:
    """Racing on the farm, by the objective that the run has in the store."""
    store, run_id = evaluate.dispatcher.store, evaluate.dispatcher.run_id
    run = store.run(run_id)

    def partials(plan: Plan) -> dict[int, Partial]:
        return partials_of(plan, store.stages(run_id, plan.name), run.samples)

    return Racing(evaluate, partials, search_race(questions), places, run.objective)


def is_raced(candidate: Candidate) -> bool:
    """Whether nothing follows the evaluation: the reflector reads the answers to all questions."""
    return candidate.merge is None and candidate.target is None and not candidate.rewrite


@dataclass
class _Heat:
    """One race: its plan, the complete candidate, and what the rungs have shown so far."""

    plan: Plan
    reference: Candidate
    seen: dict[int, Partial] = field(default_factory=dict)
    seconds: dict[int, Counter[str]] = field(default_factory=dict)
    computed: set[int] = field(default_factory=set)

    @property
    def known(self) -> Partial:
        return self.seen[self.reference.index]

    def take(self, outcomes: Sequence[Outcome], partials: Mapping[int, Partial]) -> None:
        self.seen |= partials
        for outcome in outcomes:
            self.seconds.setdefault(outcome.index, Counter()).update(outcome.seconds)
            if outcome.evaluations.computed:
                self.computed.add(outcome.index)

    def with_rungs(self, outcome: Outcome) -> Outcome:
        """An outcome with the seconds of its rungs; it counts as one evaluation, computed if one of them was."""
        if outcome.index not in self.seconds:
            return outcome
        is_computed = outcome.index in self.computed or outcome.evaluations.computed > 0
        return dataclasses.replace(
            outcome,
            seconds=dict(self.seconds[outcome.index] + Counter(outcome.seconds)),
            evaluations=Evaluations(computed=int(is_computed), cached=int(not is_computed)),
        )


def _reference(plan: Plan, raced: Sequence[Candidate], deltas: Sequence[float]) -> Candidate:
    """The candidate of the plan with these deltas, or one more."""
    for candidate in raced:
        if candidate.deltas == tuple(deltas):
            return candidate
    return Candidate(1 + max(candidate.index for candidate in plan.candidates), tuple(deltas))


def _rung(plan: Plan, number: int, candidates: Sequence[Candidate]) -> Plan:
    return dataclasses.replace(plan, name=rung_name(plan.name, number), candidates=tuple(candidates))


def partials_of(plan: Plan, records: Mapping[str, Mapping[str, Any]], samples: int) -> dict[int, Partial]:
    """The answers to each question, from the records of a rung; with several `samples` their means."""
    return {candidate.index: _partial(candidate, records, samples) for candidate in plan.candidates}


def _partial(candidate: Candidate, records: Mapping[str, Mapping[str, Any]], samples: int) -> Partial:
    answers = records[StageRef(candidate.index, "answer", "pre").field]["answers"]
    verdicts = records[StageRef(candidate.index, "judge", "pre").field]["verdicts"]
    tokens = [answer["tokens"] for answer in answers]
    return Partial(_means(tokens, samples), _means([verdict["is_correct"] for verdict in verdicts], samples))


def _means(values: Sequence[float], samples: int) -> tuple[float, ...]:
    """values [questions * samples], the samples of a question side by side -> [questions]."""
    return tuple(sum(values[i : i + samples]) / samples for i in range(0, len(values), samples))
