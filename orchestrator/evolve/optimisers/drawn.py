"""Searches that draw all candidates of a generation anew: which of the draws are sent.

Draws are real numbers, so two are equal only in a corner: where the bound has cut every free delta of both.  Equal
draws of one generation are one candidate.  The state keeps the scores of corners, so none is sent in a later
generation again, also when the search was interrupted in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, TypeVar

from pydantic import ConfigDict

from orchestrator.evolve.optimisers.base import STRICT, Optimiser, P, SearchState
from orchestrator.evolve.optimisers.generation import as_evaluated
from orchestrator.evolve.optimisers.planning import distinct_candidates, expand, known_outcome
from tasks.common.validation import Delta
from tasks.plan import Candidate, Outcome, Plan
from tasks.records import Score


@dataclass(frozen=True)
class Corner:
    """An individual whose free deltas are all at the bound, and its score on all questions."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    deltas: tuple[Delta, ...]
    score: Score


@dataclass(frozen=True, kw_only=True)
class DrawnState(SearchState):
    """`corners` are those that have been evaluated, each once, in the order of their first evaluation."""

    corners: tuple[Corner, ...] = ()


D = TypeVar("D", bound=DrawnState)


class DrawnSearch(Optimiser[P, D], Protocol[P, D]):
    """`ask` sends the draws that are not known, each distinct one once; those for the reflector are always sent."""

    def drawn(self, state: D, params: P) -> Plan:
        """All draws of a generation, also equal ones."""
        ...

    def known(self, state: D) -> dict[tuple[float, ...], Score]:
        """The scores that the state has of individuals that may be drawn again."""
        return {corner.deltas: corner.score for corner in state.corners}

    def ask(self, state: D, params: P) -> Plan:
        known = self.known(state)
        plan = distinct_candidates(self.drawn(state, params))
        return replace(plan, candidates=tuple(c for c in plan.candidates if not _is_known(c, known)))

    def completed(self, state: D, params: P, plan: Plan, outcomes: Sequence[Outcome]) -> tuple[Plan, list[Outcome]]:
        """All draws, also those that equal another one or are known."""
        drawn, known = self.drawn(state, params), self.known(state)
        again = {c.index: known_outcome(c, known[c.deltas]) for c in drawn.candidates if _is_known(c, known)}
        return drawn, expand(drawn, outcomes, again)

    def corners(self, state: D, params: P, plan: Plan, outcomes: Sequence[Outcome]) -> tuple[Corner, ...]:
        """The corners that are known after a plan that was sent."""
        found = {corner.deltas: corner for corner in state.corners}
        for outcome in sorted(outcomes, key=lambda one: one.index):
            for one in as_evaluated(plan, outcome):
                deltas = one.genome.deltas
                if all(abs(deltas[position]) == params.bound for position in params.free):
                    found.setdefault(deltas, Corner(deltas, one.score))
        return tuple(found.values())


def _is_known(candidate: Candidate, known: Mapping[tuple[float, ...], Score]) -> bool:
    return candidate.target is None and candidate.deltas in known
