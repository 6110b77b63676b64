"""A formula in place of the farm: it scores vectors, and its reflector knows the way to the optimum."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.evolve.optimisers import Generation
from tasks.plan import Candidate, Outcome, Plan
from tasks.records import Score

CLUSTERS = 6
IDS = tuple(str(i) for i in range(CLUSTERS))
OPTIMUM = (2.0, 1.0, -1.5, -0.5, 0.5, -2.0)
START = (0.0,) * CLUSTERS


def score(deltas: Sequence[float]) -> Score:
    """Best at the optimum; fewer tokens the higher the first delta, fewer right answers the further the rest is off."""
    distance = sum((delta - best) ** 2 for delta, best in zip(deltas, OPTIMUM, strict=True))
    off = sum((delta - best) ** 2 for delta, best in zip(deltas[1:], OPTIMUM[1:], strict=True))
    tokens = 100.0 / (1 + max(0.0, 3 + deltas[0])) + off
    return Score(1 / (1 + distance), 0.5, max(0.0, 1 - off / 50 - max(0.0, deltas[0]) / 20), tokens)


def outcome(candidate: Candidate, refused: frozenset[int] = frozenset()) -> Outcome:
    """The reflector halves the distance to the optimum, a little less for each variant of the same question."""
    merge = candidate.merge
    scratchpad = f"({merge.scratchpad_a}|{merge.scratchpad_b})" if merge else candidate.scratchpad
    pre = score(candidate.deltas)
    step = 0.5 / (1 + candidate.variant)
    moved = [d + step * (best - d) for d, best in zip(candidate.deltas, OPTIMUM, strict=True)]
    seconds = {"answer": 1.0}
    if candidate.rewrite and candidate.index not in refused:
        deltas = tuple(moved)
        return Outcome(candidate.index, scratchpad, pre, None, f"learnt {pre.fitness:.3f}", None, seconds, deltas)
    if candidate.rewrite or candidate.target is None or candidate.index in refused:
        return Outcome(candidate.index, scratchpad, pre, None, scratchpad, None, seconds)
    changed = list(candidate.deltas)
    changed[candidate.target] = moved[candidate.target]
    note = f"{scratchpad}{candidate.target}"
    mut = score(changed)
    return Outcome(candidate.index, scratchpad, pre, changed[candidate.target], note, mut, seconds)


@dataclass
class Formula:
    """Evaluates plans and remembers them; answers in a shuffled order when it is given a generator."""

    shuffle: random.Random | None = None
    refused: frozenset[int] = frozenset()
    plans: list[Plan] = field(default_factory=list)

    def __call__(self, plan: Plan) -> list[Outcome]:
        self.plans.append(plan)
        outcomes = [outcome(candidate, self.refused) for candidate in plan.candidates]
        if self.shuffle:
            self.shuffle.shuffle(outcomes)
        return outcomes

    @property
    def candidates(self) -> list[Candidate]:
        return [candidate for plan in self.plans for candidate in plan.candidates]


@dataclass(frozen=True)
class Step:
    state: Any
    generation: Generation

    @property
    def ends_generation(self) -> bool:
        return bool(self.state.generation > self.generation.number)


def search(optimiser: Any, params: Any, evaluate: Any) -> Iterator[Step]:
    """A whole search, plan by plan."""
    state = optimiser.init(params)
    while state.generation < params.generations:
        plan = optimiser.ask(state, params)
        outcomes = sorted(evaluate(plan), key=lambda one: one.index) if plan.candidates else []
        state, generation = optimiser.tell(state, params, plan, outcomes)
        yield Step(state, generation)
