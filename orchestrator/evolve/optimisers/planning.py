"""Plans of a search: their names, their random draws, and which of their candidates are sent.

The draws of a generation come from a generator seeded with the run's seed and the generation, so a resumed generation
makes the same draws as the interrupted one.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence

from tasks.plan import Candidate, Evaluations, Outcome, Plan
from tasks.records import Score

CACHED = Evaluations(cached=1)


def generator(seed: int, generation: int) -> random.Random:
    """The generator of a generation's draws."""
    return random.Random(f"whetstone {seed} {generation}")


def plan_names(generation: int) -> tuple[str, str]:
    """The names that a generation's plans can have: of a population, and of children."""
    return f"g{generation}_pop", f"g{generation}_child"


def distinct_candidates(plan: Plan) -> Plan:
    """The plan without candidates whose outcome is that of an earlier one; `expand` puts them back.

    Candidates with a call to the reflector all stay: two replies to one question may differ.
    """
    first: dict[object, Candidate] = {}
    for candidate in plan.candidates:
        first.setdefault(_identity(candidate), candidate)
    return dataclasses.replace(plan, candidates=tuple(first.values()))


def expand(plan: Plan, outcomes: Sequence[Outcome], known: Mapping[int, Outcome] | None = None) -> list[Outcome]:
    """One outcome for each candidate of a plan, in its order, from those of `distinct_candidates(plan)`.

    `known` are the outcomes of candidates that were not sent because they had been evaluated before, by index.
    The copy of an outcome took no time and counts as an evaluation from the cache.
    """
    by_index = {**(known or {}), **{outcome.index: outcome for outcome in outcomes}}
    first: dict[object, Outcome] = {}
    expanded = []
    for candidate in plan.candidates:
        identity = _identity(candidate)
        outcome = by_index.get(candidate.index)
        if outcome is None and identity in first:
            outcome = dataclasses.replace(first[identity], index=candidate.index, seconds={}, evaluations=CACHED)
        if outcome is None:
            raise LookupError(f"plan {plan.name} has no outcome of candidate {candidate.index}")
        first.setdefault(identity, outcome)
        expanded.append(outcome)
    return expanded


def known_outcome(candidate: Candidate, score: Score) -> Outcome:
    """The outcome of a candidate that needs no call to the reflector and whose deltas have been evaluated before."""
    return Outcome(
        candidate.index, candidate.scratchpad, score, None, candidate.scratchpad, None, {}, evaluations=CACHED
    )


def _identity(candidate: Candidate) -> object:
    """Equal for candidates that have the same outcome."""
    if candidate.merge is not None or candidate.target is not None or candidate.rewrite:
        return candidate.index
    return (
        candidate.deltas,
        candidate.scratchpad,
        candidate.examples,
        candidate.system_prompt,
        candidate.repeat,
    )
