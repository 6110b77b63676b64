"""One lineage: the reflector rewrites the whole vector after each evaluation, and keeps a summary of what it learnt.

It reads the answers with their verdicts, the vector, the cluster descriptions and its summary.  The proposal is the
next vector, better or worse: the loop of A. Madaan et al., "Self-Refine: Iterative Refinement with Self-Feedback",
NeurIPS 36 (2023), with deltas in place of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from orchestrator.evolve.optimisers import (
    Generation,
    Optimiser,
    SearchParams,
    SearchState,
    best_of,
    drawn_generation,
)
from tasks.common.text import limit_scratchpad
from tasks.common.validation import Delta, Scratchpad
from tasks.plan import Candidate, Outcome, Plan


@dataclass(frozen=True, kw_only=True)
class LineageState(SearchState):
    """`deltas`, proposed from the node `parent`, are evaluated next; `refused` proposals in a row were unusable."""

    deltas: tuple[Delta, ...]
    summary: Scratchpad = ""
    refused: int = 0
    parent: str = ""


class SingleLineage(Optimiser[SearchParams, LineageState]):
    """One vector a generation, which is sent once.  The last one is evaluated without asking for another."""

    name: ClassVar[str] = "lineage"
    params_type = SearchParams
    state_type = LineageState

    def init(self, params: SearchParams) -> LineageState:
        return LineageState(deltas=params.initial_deltas, summary=params.initial_scratchpad)

    def ask(self, state: LineageState, params: SearchParams) -> Plan:
        is_last = state.generation + 1 >= params.generations
        candidate = Candidate(0, state.deltas, state.summary, rewrite=not is_last, variant=state.refused)
        return Plan("population", state.generation, (candidate,))

    def tell(
        self, state: LineageState, params: SearchParams, plan: Plan, outcomes: Sequence[Outcome]
    ) -> tuple[LineageState, Generation]:
        [outcome] = outcomes
        [vector] = drawn_generation(plan, outcomes).population
        parents = (state.parent,) if state.parent else ()
        generation = Generation(state.generation, (replace(vector, parents=parents),))
        best, parent = best_of(state.best, [vector]), plan.node(0, "pre")
        after = replace(state, generation=state.generation + 1, best=best, parent=parent)
        if outcome.deltas is None:
            return replace(after, refused=state.refused + plan.candidates[0].rewrite), generation
        summary = limit_scratchpad("\n".join(filter(None, [state.summary, outcome.mutated_scratchpad.strip()])))
        deltas = params.whole([outcome.deltas[position] for position in params.free])
        return replace(after, deltas=deltas, summary=summary, refused=0), generation
