"""Watching a run: `Snapshot`, the state of a run at one moment, and `View`, which displays snapshots.

There are two views: plain lines (`plain`) and the live display of a terminal (`terminal`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from orchestrator.report.formatting import INITIAL, format_cost, format_evaluations
from tasks.plan import Evaluations, Phase, StageName, stages_of

PlanKind = Literal["clusters", "baselines", "population", "offspring", "final"]


@dataclass(frozen=True)
class CandidateView:
    """One individual of the plan in flight. `target` is the cluster that its mutation changes; None: no mutation.

    `stage` is a stage of the plan, or "waiting", "done" or "failed".  A mutated child is evaluated twice; `phase` says
    to which evaluation `stage` belongs.  `merges` is True for a child of two parents, `rewrites` for one whose answers
    the reflector reads to propose the next vector.
    """

    node: str
    stage: StageName
    phase: Phase = "pre"
    target: str | None = None
    fitness: float | None = None
    error: str | None = None
    merges: bool = False
    rewrites: bool = False


@dataclass(frozen=True)
class Totals:
    """What a run has used until a moment; the fields are those of `Snapshot`."""

    calls: int
    tokens: int
    cost_usd: float | None
    evaluations: Evaluations


@dataclass(frozen=True)
class Snapshot:
    """The state of a run. `generation` counts from 0; times are in seconds, costs in US dollars.

    `best` and `mean` are of the current population, `baseline` is the fitness of the initial individual, which
    `baseline_name` names. `progress` is (done, total) of the work that `note` names, such as embedding the vocabulary.
    `cost_usd` None is unknown. `evaluations` counts those of the run so far.
    """

    run: str
    generation: int
    generations: int
    plan: PlanKind
    candidates: tuple[CandidateView, ...] = ()
    best: float | None = None
    mean: float | None = None
    best_ever: float | None = None
    baseline: float | None = None
    queues: dict[str, int] = field(default_factory=dict)
    elapsed_s: float = 0.0
    left_s: float | None = None
    calls: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0
    budget_usd: float = 0.0  # 0 is none
    note: str = ""
    progress: tuple[int, int] | None = None
    baseline_name: str = INITIAL
    evaluations: Evaluations = field(default_factory=Evaluations)
    totals: Totals | None = None  # when the last generation was recorded; None before the first in this session


def steps(candidate: CandidateView) -> tuple[tuple[Phase, StageName], ...]:
    """The stages of this candidate, in order.  A mutated child is evaluated before and after its mutation."""
    return stages_of(merges=candidate.merges, mutates=candidate.target is not None, rewrites=candidate.rewrites)


def steps_done(candidate: CandidateView) -> int:
    """How many of `steps(candidate)` are done.  A reflection belongs to the second phase, whatever `phase` is."""
    path = steps(candidate)
    if candidate.stage == "done":
        return len(path)
    phase: Phase = "mut" if candidate.stage == "reflect" else candidate.phase
    return path.index((phase, candidate.stage)) if (phase, candidate.stage) in path else 0


class View(Protocol):
    """Displays a run, or writes a log of it.  Used by one thread.

    The driver calls `show` after each poll; the view decides what to display.  `notify` is for messages that must be
    displayed, such as a parked run.  `close` restores the terminal; it may be called twice, and no call follows it.
    """

    def show(self, snapshot: Snapshot) -> None: ...

    def notify(self, text: str) -> None: ...

    def close(self) -> None: ...


PLANS = {
    "clusters": "preparing the vocabulary's clusters",
    "population": "evaluating the population",
    "offspring": "breeding and evaluating children",
    "baselines": "measuring the plain model, the system prompts and the vectors without search",
    "final": "choosing the winner and comparing it",
}


def progress_text(snapshot: Snapshot) -> str:
    """`embedding vocabulary 12,288 of 49,152`, or the note alone."""
    if snapshot.progress is None:
        return snapshot.note
    done, total = snapshot.progress
    return f"{snapshot.note} {done:,} of {total:,}"


def usage_parts(now: Snapshot) -> list[str]:
    """Evaluations, calls, tokens and cost so far."""
    cost = "cost unknown" if now.cost_usd is None else format_cost(now.cost_usd, now.budget_usd)
    evaluations = f"evaluations {format_evaluations(now.evaluations)}"
    return [evaluations, f"{now.calls:,} calls", f"{now.tokens:,} tokens", cost]
