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

import dataclasses
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from orchestrator.evolution.state import StateError
from tasks.models import Score
from tasks.plan import Candidate, Outcome, Plan

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

Evaluate = Callable[[Plan], Sequence[Outcome]]


@dataclass(frozen=True, kw_only=True)
class SearchParams:
    """What every optimiser must know.

    `initial_deltas` has one float a cluster, in the order of `cluster_ids`.  `pinned` are the positions of clusters
    whose deltas stay as they are at the start: adding the same amount to every logit changes no probability, so one
    cluster can always be pinned without losing a solution.  `bound` is the largest absolute delta that a draw may give.
    """

    seed: int
    cluster_ids: tuple[str, ...]
    initial_deltas: tuple[float, ...]
    generations: int
    population_size: int
    pinned: tuple[int, ...] = ()
    bound: float = 8.0

    def __post_init__(self) -> None:
        """Raises: ValueError when the deltas are not one a cluster, or no cluster is left to change."""
        if len(self.initial_deltas) != len(self.cluster_ids):
            raise ValueError(f"{len(self.initial_deltas)} deltas for {len(self.cluster_ids)} clusters")
        if strange := sorted(set(self.pinned) - set(range(len(self.cluster_ids)))):
            raise ValueError(f"position {strange[0]} cannot be pinned: there are {len(self.cluster_ids)} clusters")
        if not self.free:
            raise ValueError("every cluster is pinned: there is nothing to search")

    @property
    def free(self) -> tuple[int, ...]:
        """The positions of the clusters that are searched."""
        return tuple(position for position in range(len(self.cluster_ids)) if position not in self.pinned)


@dataclass(frozen=True)
class Best:
    """The best candidate so far, and its fitness."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    deltas: tuple[float, ...]
    scratchpad: str
    fitness: float


@dataclass(frozen=True)
class Evaluated:
    """A candidate and its score; None before it has been evaluated."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    deltas: tuple[float, ...]
    scratchpad: str = ""
    score: Score | None = None


@dataclass(frozen=True, kw_only=True)
class SearchState:
    """What every state has.  `generation` is the one that the next plan belongs to; `best` is None before the first."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    generation: int = 0
    best: Best | None = None


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
        """The state after the plan that `ask` gave for `state`.  Raises: LookupError when an outcome is missing."""
        ...

    def is_finished(self, state: S, params: P) -> bool:
        return state.generation >= params.generations

    def problem(self, state: S, params: P) -> str:
        """Why a state that was read cannot belong to these parameters; "" where it can."""
        return ""

    def to_json(self, state: S, params: P) -> str:
        """The state, exactly: `from_json` gives an equal one."""
        content = TypeAdapter(self.state_type).dump_python(state, mode="json")
        values = {"optimiser": self.name, "clusters": list(params.cluster_ids), "state": content}
        return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def from_json(self, text: str, params: P) -> S:
        """Raises: StateError when the text is no state, or one of another optimiser, clustering or population."""
        try:
            values = json.loads(text)
            name, clusters, content = values["optimiser"], values["clusters"], values["state"]
            if name != self.name:
                raise StateError(f"it is a state of the optimiser {name!r}, not of {self.name!r}")
            if clusters != list(params.cluster_ids):
                raise StateError(f"its clusters are {clusters}, not {list(params.cluster_ids)}")
            state = TypeAdapter(self.state_type).validate_json(json.dumps(content))
        except (ValidationError, ValueError, KeyError, TypeError) as error:
            raise StateError(f"it is not an evolution state ({_first_line(error)})") from None
        if reason := _general_problem(state, params) or self.problem(state, params):
            raise StateError(reason)
        return state


@dataclass(frozen=True)
class Turn:
    """One plan, its outcomes, and the state that follows."""

    plan: Plan
    outcomes: tuple[Outcome, ...]
    state: SearchState


def search(optimiser: Optimiser[P, S], state: S, params: P, evaluate: Evaluate) -> Iterator[Turn]:
    """Run the plans that remain, one at a time; the caller saves each state before it asks for the next."""
    while not optimiser.is_finished(state, params):
        plan = optimiser.ask(state, params)
        outcomes = tuple(evaluate(plan)) if plan.candidates else ()
        state = optimiser.tell(state, params, plan, outcomes)
        yield Turn(plan, outcomes, state)


def generator(seed: int, generation: int, purpose: str = "") -> random.Random:
    """The generator of a generation's draws.  `purpose` tells apart draws that must not share one."""
    return random.Random(f"whetstone {seed} {generation}{' ' + purpose if purpose else ''}")


def better(best: Best | None, deltas: Sequence[float], scratchpad: str, score: Score) -> Best:
    """The better of the best so far and another candidate; the earlier of equals."""
    if best is not None and best.fitness >= score.fitness:
        return best
    return Best(tuple(deltas), scratchpad, score.fitness)


def distinct(plan: Plan) -> Plan:
    """The plan without candidates whose outcome is that of an earlier one; `expand` puts them back.

    Candidates with a call to the reflector for a proposal all stay: two replies to one question may differ.
    """
    first: dict[object, Candidate] = {}
    for candidate in plan.candidates:
        first.setdefault(_identity(candidate), candidate)
    return dataclasses.replace(plan, candidates=tuple(first.values()))


def expand(plan: Plan, outcomes: Sequence[Outcome], known: Mapping[int, Outcome] | None = None) -> list[Outcome]:
    """One outcome for each candidate of a plan, in its order, from those of `distinct(plan)`.

    `known` are the outcomes of candidates that were not sent because they had been evaluated before, by index.
    Raises: LookupError when one is missing.
    """
    by_index = {**(known or {}), **{outcome.index: outcome for outcome in outcomes}}
    first: dict[object, Outcome] = {}
    expanded = []
    for candidate in plan.candidates:
        outcome = by_index.get(candidate.index) or first.get(_identity(candidate))
        if outcome is None:
            raise LookupError(f"plan {plan.name} has no outcome of candidate {candidate.index}")
        first.setdefault(_identity(candidate), outcome)
        expanded.append(dataclasses.replace(outcome, index=candidate.index))
    return expanded


def known_outcome(candidate: Candidate, score: Score) -> Outcome:
    """The outcome of a candidate that needs no call to the reflector and whose deltas have been evaluated before."""
    return Outcome(candidate.index, candidate.scratchpad, score, None, candidate.scratchpad, None, {})


def clip(value: float, bound: float) -> float:
    return min(bound, max(-bound, value))


def _identity(candidate: Candidate) -> object:
    """Equal for candidates that have the same outcome."""
    if candidate.target is not None or candidate.rewrite:
        return candidate.index
    return (candidate.deltas, candidate.scratchpad, candidate.merge, candidate.examples)


def _general_problem(state: SearchState, params: SearchParams) -> str:
    if state.generation < 0:
        return f"its generation is {state.generation}"
    if state.best is not None and len(state.best.deltas) != len(params.cluster_ids):
        return f"its best has {len(state.best.deltas)} deltas for {len(params.cluster_ids)} clusters"
    if state.best is not None and not all(map(math.isfinite, state.best.deltas)):
        return "a delta of its best is not finite"
    return ""


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error).splitlines()[0] if str(error) else type(error).__name__
