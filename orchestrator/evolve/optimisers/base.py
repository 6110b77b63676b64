"""What every optimiser is: `init`, `ask`, `tell` and a frozen state that JSON carries without loss.

    state = optimiser.init(params)
    while not optimiser.is_finished(state, params):
        plan = optimiser.ask(state, params)
        state = optimiser.tell(state, params, plan, outcomes_of(plan))

Parameters and states are frozen dataclasses; the optimiser itself holds nothing.  Every random draw is made in `ask`,
by a generator seeded with the run's seed and the generation alone: asking again gives the same plan, so a search that
was interrupted continues exactly where it was.  The order in which outcomes arrive changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypedDict

from orchestrator.evolve.optimisers.generation import Generation, Genome, as_population
from orchestrator.evolve.optimisers.planning import expand
from tasks.common.text import quote
from tasks.common.validation import Delta, Scratchpad, parse_json
from tasks.plan import Outcome, Plan, stages_of
from tasks.records import Score

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

Evaluate = Callable[[Plan], Sequence[Outcome]]


@dataclass(frozen=True, kw_only=True)
class SearchParams:
    """What every optimiser must know.

    `initial_deltas` has one float a cluster, in the order of `cluster_ids`.  `pinned` are the positions of clusters
    whose deltas stay as they are at the start: adding the same amount to every logit changes no probability, so one
    cluster can always be pinned without losing a solution.  `bound` is the largest absolute delta that a draw may give.
    `further` individuals are evaluated in the first generation beside that of `initial_deltas`; their pinned deltas are
    its own.
    """

    seed: int
    cluster_ids: tuple[str, ...]
    initial_deltas: tuple[float, ...]
    generations: int
    population_size: int
    pinned: tuple[int, ...] = ()
    bound: float = 8.0
    initial_scratchpad: str = ""
    further: tuple[Genome, ...] = ()

    @property
    def start(self) -> tuple[Genome, ...]:
        """All individuals that the search begins with, the start first."""
        return (Genome(self.initial_deltas, self.initial_scratchpad), *self.further)

    @property
    def free(self) -> tuple[int, ...]:
        """The positions of the clusters that are searched."""
        return tuple(position for position in range(len(self.cluster_ids)) if position not in self.pinned)


@dataclass(frozen=True)
class Best:
    """The best evaluation so far."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    deltas: tuple[Delta, ...]
    scratchpad: Scratchpad
    fitness: float


@dataclass(frozen=True)
class Member:
    """A member of a population and its score; None before it has been evaluated."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    deltas: tuple[Delta, ...]
    scratchpad: Scratchpad = ""
    score: Score | None = None


@dataclass(frozen=True, kw_only=True)
class SearchState:
    """What every state has.  `generation` is the one that the next plan belongs to; `best` is None before the first."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    generation: int = 0
    best: Best | None = None


class SearchFile(TypedDict):
    """evolution_state.json, except that of `reflective`."""

    optimiser: str
    clusters: list[str]
    state: dict[str, Any]


EVALUATION = len(stages_of(merges=False, mutates=False))
"""The number of stages of an evaluation."""
MUTATION = len(stages_of(merges=False, mutates=True)) - EVALUATION
"""The number of stages of a mutation: the reflection, and the evaluation after it."""

P = TypeVar("P", bound=SearchParams)
S = TypeVar("S", bound=SearchState)


class Optimiser(Protocol[P, S]):
    """A search.  Implementations inherit the methods that have a body here."""

    name: ClassVar[str]
    params_type: type[P]
    state_type: type[S]

    def init(self, params: P) -> S:
        """The state before the first evaluation."""
        ...

    def ask(self, state: S, params: P) -> Plan:
        """The candidates to evaluate next, each distinct one once.  It may be empty where all is known."""
        ...

    def tell(self, state: S, params: P, plan: Plan, outcomes: Sequence[Outcome]) -> S:
        """The state after the plan that `ask` gave for `state`."""
        ...

    def completed(self, state: S, params: P, plan: Plan, outcomes: Sequence[Outcome]) -> tuple[Plan, list[Outcome]]:
        """The plan that `ask` gave, and its outcomes, with the candidates that were not sent because they are known."""
        return plan, expand(plan, outcomes)

    def generation(self, state: S, params: P, plan: Plan, outcomes: Sequence[Outcome]) -> Generation:
        """What the generation of `plan` has evaluated so far, for history and tree; `outcomes` as for `tell`."""
        return Generation(plan.generation, as_population(*self.completed(state, params, plan, outcomes)))

    def members(self, state: S) -> tuple[Genome, ...]:
        """What another search goes on with from this state: its population, or else the best so far."""
        return () if state.best is None else (Genome(state.best.deltas, state.best.scratchpad),)

    def ends_generation(self, plan: Plan) -> bool:
        """Whether `plan` is the last one of its generation."""
        return True

    def stages_of_a_generation(self, params: P) -> float:
        """How many stages a generation has, as expected before it is drawn."""
        return float(params.population_size * EVALUATION)

    def is_finished(self, state: S, params: P) -> bool:
        return state.generation >= params.generations

    def to_json(self, state: S, params: P) -> str:
        """The state, exactly: `from_json` gives an equal one."""
        content = TypeAdapter(self.state_type).dump_python(state, mode="json")
        values = {"optimiser": self.name, "clusters": list(params.cluster_ids), "state": content}
        return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def from_json(self, text: str, params: P) -> S:
        values = parse_json(SearchFile, text)
        if (values["optimiser"], values["clusters"]) != (self.name, list(params.cluster_ids)):
            raise ValueError(f"it is of {quote(values['optimiser'])} over {len(values['clusters'])} clusters")
        return parse_json(self.state_type, json.dumps(values["state"]))


@dataclass(frozen=True)
class Turn:
    """One plan, the outcomes of all its candidates (also of those not sent), the next state, the generation so far."""

    plan: Plan
    outcomes: tuple[Outcome, ...]
    state: SearchState
    generation: Generation


def search(optimiser: Optimiser[P, S], state: S, params: P, evaluate: Evaluate) -> Iterator[Turn]:
    """Run the plans that remain, one at a time; the caller saves each state before it asks for the next."""
    while not optimiser.is_finished(state, params):
        plan = optimiser.ask(state, params)
        outcomes = tuple(evaluate(plan)) if plan.candidates else ()
        generation = optimiser.generation(state, params, plan, outcomes)
        _, results = optimiser.completed(state, params, plan, outcomes)
        state = optimiser.tell(state, params, plan, outcomes)
        yield Turn(plan, tuple(results), state, generation)


def better(best: Best | None, deltas: Sequence[float], scratchpad: str, score: Score) -> Best:
    """The better of the best so far and another candidate; the earlier of equals."""
    if best is not None and best.fitness >= score.fitness:
        return best
    return Best(tuple(deltas), scratchpad, score.fitness)


def clip(value: float, bound: float) -> float:
    return min(bound, max(-bound, value))
