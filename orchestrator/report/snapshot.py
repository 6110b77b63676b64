"""A run at one moment, as a person watches it: what the driver knows and a view shows. Plain data, no drawing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Stage = Literal["waiting", "merge", "answer", "judge", "score", "reflect", "done", "failed"]
Phase = Literal["pre", "mut"]
Plan = Literal["clusters", "population", "offspring", "final"]

EVALUATION: tuple[Stage, ...] = ("answer", "judge", "score")


@dataclass(frozen=True)
class MemberView:
    """One individual on its way. `target` is the cluster that its mutation changes, None when it is not mutated.

    `phase` says which of a mutated child's two evaluations `stage` belongs to; `merges` is False for a child that
    was cloned from one parent, and for the members of a population.
    """

    node: str
    stage: Stage
    phase: Phase = "pre"
    target: str | None = None
    fitness: float | None = None
    error: str | None = None
    merges: bool = False


@dataclass(frozen=True)
class Snapshot:
    """What there is to see of a run. `generation` is 0-based; times in seconds; `cost_usd` in US dollars.

    `best` and `mean` are of the present population, `baseline` is the zero vector's fitness. `progress` is
    (done, total) of what `note` names, such as embedding the vocabulary.
    """

    run: str
    generation: int
    generations: int
    plan: Plan
    members: tuple[MemberView, ...] = ()
    best: float | None = None
    mean: float | None = None
    best_ever: float | None = None
    baseline: float | None = None
    queues: dict[str, int] = field(default_factory=dict)
    elapsed_s: float = 0.0
    left_s: float | None = None
    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    budget_usd: float = 0.0  # 0 is none
    note: str = ""
    progress: tuple[int, int] | None = None


def steps(member: MemberView) -> tuple[tuple[Phase, Stage], ...]:
    """The stages this member passes, in order (genetic_evolution_plan.md section 3: two evaluations if mutated)."""
    first: tuple[Stage, ...] = ("merge", *EVALUATION) if member.merges else EVALUATION
    second: tuple[Stage, ...] = ("reflect", *EVALUATION) if member.target is not None else ()
    return tuple(("pre", stage) for stage in first) + tuple(("mut", stage) for stage in second)


def steps_done(member: MemberView) -> int:
    """How many of `steps(member)` lie behind it.  A reflection belongs to the second phase, whatever `phase` says."""
    path = steps(member)
    if member.stage == "done":
        return len(path)
    phase: Phase = "mut" if member.stage == "reflect" else member.phase
    return path.index((phase, member.stage)) if (phase, member.stage) in path else 0
