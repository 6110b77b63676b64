"""What every optimiser is: `init`, `ask`, `tell` and a frozen state that JSON carries without loss.

    state = optimiser.init(params)
    while state.generation < params.generations:
        plan = optimiser.ask(state, params)
        state, generation = optimiser.tell(state, params, plan, outcomes_of(plan))

Parameters and states are frozen dataclasses; the optimiser itself holds nothing.  Every random draw is made in `ask`,
by a generator seeded with the run's seed and the generation alone: asking again gives the same plan, so a search that
was interrupted continues exactly where it was.

CONTRIBUTING.md says what a new optimiser needs beside a module here.
"""

from __future__ import annotations

import importlib
import json
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypedDict

from orchestrator.settings.inputs import Genome
from tasks.common.text import quote
from tasks.common.validation import Delta, Scratchpad, parse_json
from tasks.plan import Candidate, Outcome, Plan
from tasks.records import Score

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

Evaluate = Callable[[Plan], Sequence[Outcome]]


@dataclass(frozen=True)
class Evaluated:
    """One evaluation: its node in the evolution tree, what was evaluated, and its score.

    target: the position of the cluster that was mutated; parents: the nodes that it descends from; place: its position
    in the next population; merge_fallback, skip_reason: why no reply of the reflector was usable, for the merge before
    this evaluation and for the proposal after it.
    """

    node: str
    genome: Genome
    score: Score
    target: int | None = None
    parents: tuple[str, ...] = ()
    place: int | None = None
    merge_fallback: str = ""
    skip_reason: str = ""


@dataclass(frozen=True)
class Generation:
    """What a generation has evaluated so far.

    `carried` members of the population have their score from the generation before.  The first individual of the first
    population is the start of the search.
    """

    number: int
    population: tuple[Evaluated, ...]
    offspring: tuple[Evaluated, ...] = ()
    carried: int = 0

    @property
    def leader(self) -> Evaluated:
        """The best of the population; of equal ones the first."""
        return max(self.population, key=lambda one: one.score.fitness)

    @property
    def evaluated(self) -> tuple[Evaluated, ...]:
        return (*self.population, *self.offspring)


@dataclass(frozen=True, kw_only=True)
class SearchParams:
    """What every optimiser must know.

    `initial_deltas` has one float a cluster, in the order of `cluster_ids`.  `pinned` clusters (positions) keep the
    deltas of the start: adding the same amount to every logit changes nothing, so one can always be pinned.  `bound` is
    the largest absolute delta of a draw, `sigma` the standard deviation of the first draws.  `further` individuals are
    evaluated in the first generation beside the start.  An optimiser may have no use for some of these.
    """

    seed: int
    cluster_ids: tuple[str, ...]
    initial_deltas: tuple[float, ...]
    generations: int
    population_size: int
    sigma: float
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

    def whole(self, free: Sequence[float]) -> tuple[float, ...]:
        """A vector with these free deltas, each within the bound, and the pinned ones of the start."""
        deltas = list(self.initial_deltas)
        for position, value in zip(self.free, free, strict=True):
            deltas[position] = min(self.bound, max(-self.bound, value))
        return tuple(deltas)


@dataclass(frozen=True)
class Best:
    """The best evaluation so far."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    deltas: tuple[Delta, ...]
    scratchpad: Scratchpad
    fitness: float


@dataclass(frozen=True, kw_only=True)
class SearchState:
    """What every state has.  `generation` is the run's that the next plan belongs to; `best` is None at first."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    generation: int = 0
    best: Best | None = None

    @property
    def is_new(self) -> bool:
        """Whether nothing has been evaluated; an arm's first generation need not be the run's."""
        return self.best is None

    @property
    def members(self) -> tuple[Genome, ...]:
        """What a fork goes on with: the best so far; a state that keeps a population overrides it with that."""
        return () if self.best is None else (Genome(self.best.deltas, self.best.scratchpad),)


class SearchFile(TypedDict):
    """evolution_state.json, except that of `reflective`."""

    optimiser: str
    clusters: list[str]
    state: dict[str, Any]


def generations_in(saved: Mapping[str, Any]) -> int:
    """How many generations an `evolution_state.json` counts, of whichever optimiser."""
    return int(saved.get("state", saved)["generation"])


P = TypeVar("P", bound=SearchParams)
S = TypeVar("S", bound=SearchState)


class Optimiser(ABC, Generic[P, S]):
    name: ClassVar[str]
    params_type: type[P]
    state_type: type[S]

    @abstractmethod
    def init(self, params: P) -> S:
        """The state before the first evaluation."""

    @abstractmethod
    def ask(self, state: S, params: P) -> Plan:
        """The candidates to evaluate next.  Equal ones need no care: the store computes their answers once."""

    @abstractmethod
    def tell(self, state: S, params: P, plan: Plan, outcomes: Sequence[Outcome]) -> tuple[S, Generation]:
        """The state after the plan that `ask` gave for `state`, and what its generation has evaluated so far.

        `outcomes` are in the order of the plan's candidates.
        """

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


def drawn_plan(generation: int, drawn: Sequence[Genome]) -> Plan:
    candidates = (Candidate(index, one.deltas, one.scratchpad) for index, one in enumerate(drawn))
    return Plan("population", generation, tuple(candidates))


def drawn_generation(plan: Plan, outcomes: Sequence[Outcome]) -> Generation:
    """That of a plan whose candidates were drawn anew: its population has each vector once."""
    found: dict[tuple[float, ...], Evaluated] = {}
    for candidate, outcome in zip(plan.candidates, outcomes, strict=True):
        one = Evaluated(
            plan.node(candidate.index, "pre"), Genome(candidate.deltas, outcome.scratchpad), outcome.pre,
            merge_fallback=outcome.merge_fallback, skip_reason=outcome.skip_reason,
        )  # fmt: skip
        found.setdefault(candidate.deltas, one)
    return Generation(plan.generation, tuple(found.values()))


def best_of(best: Best | None, evaluated: Sequence[Evaluated]) -> Best | None:
    """The best so far, or a better one of those evaluated; the earlier of equals."""
    for one in evaluated:
        if best is None or one.score.fitness > best.fitness:
            best = Best(one.genome.deltas, one.genome.scratchpad, one.score.fitness)
    return best


def generator(seed: int, generation: int) -> random.Random:
    """The generator of a generation's draws."""
    return random.Random(f"whetstone {seed} {generation}")


def canonical_order(cluster_ids: Sequence[str]) -> tuple[str, ...]:
    """Cluster ids in the order of every list of deltas."""
    return tuple(sorted(cluster_ids, key=int))


def list_to_deltas(values: Sequence[float], cluster_ids: Sequence[str]) -> dict[str, float]:
    return dict(zip(cluster_ids, values, strict=True))


OPTIMISERS: Mapping[str, str] = {
    "reflective": "orchestrator.evolve.optimisers.reflective:Reflective",
    "cma": "orchestrator.evolve.optimisers.cma:Cma",
    "lineage": "orchestrator.evolve.optimisers.lineage:SingleLineage",
    "random": "orchestrator.evolve.optimisers.random_search:RandomSearch",
}
"""The class of each optimiser, imported when it is asked for."""


def make_optimiser(name: str) -> Optimiser[Any, Any]:
    module, _, member = OPTIMISERS[name].partition(":")
    optimiser: Optimiser[Any, Any] = getattr(importlib.import_module(module), member)()
    return optimiser
