"""Watching a run: `Snapshot`, the state of a run at one moment; `View`, which displays snapshots; `PlainView`, which
writes one line for each event, for logs and pipes.  The live display of a terminal is in `terminal`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Literal, Protocol, TextIO

from orchestrator.report.formatting import INITIAL, format_cost, format_duration, format_evaluations, format_score
from tasks.escape import escape_control
from tasks.plan import Evaluations, Phase, StageName, stages_of

PlanKind = Literal["clusters", "baselines", "population", "offspring", "validation", "final"]


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


def open_view(stream: TextIO, force: Literal["terminal", "plain"] | None = None) -> View:
    """The live view when `stream` is a terminal that can move its cursor, plain lines otherwise.

    `force` overrides this choice.
    """
    can_move = stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
    if force == "terminal" or (force is None and can_move):
        from orchestrator.report.terminal import TerminalView

        return TerminalView(stream)
    return PlainView(stream)


PLANS = {
    "clusters": "preparing the vocabulary's clusters",
    "population": "evaluating the population",
    "offspring": "breeding and evaluating children",
    "validation": "evaluating the best on the validation set",
    "baselines": "measuring the plain model, the system prompts and the vectors without search",
    "final": "choosing the winner and comparing it",
}


class PlainView:
    """One line for each event, with the time of day."""

    def __init__(self, stream: TextIO, clock: Callable[[], datetime] = datetime.now) -> None:
        self._stream = stream
        self._clock = clock
        self._last: Snapshot | None = None
        self._tenth = -1

    def show(self, snapshot: Snapshot) -> None:
        last, self._last = self._last, snapshot
        for text in event_lines(last, snapshot):
            self.notify(text)
        self._show_progress(last, snapshot)

    def notify(self, text: str) -> None:
        self._stream.write(f"{self._clock():%H:%M:%S}  {escape_control(text)}\n")
        self._stream.flush()

    def close(self) -> None:
        self._stream.flush()

    def _show_progress(self, last: Snapshot | None, snapshot: Snapshot) -> None:
        """One line for each tenth of the work."""
        if snapshot.progress is None:
            self._tenth = -1
            return
        done, total = snapshot.progress
        tenth = 10 * done // max(total, 1)
        if tenth != self._tenth or last is None or last.note != snapshot.note:
            self._tenth = tenth
            self.notify(progress_text(snapshot))


def progress_text(snapshot: Snapshot) -> str:
    """`embedding vocabulary 12,288 of 49,152`, or the note alone."""
    if snapshot.progress is None:
        return snapshot.note
    done, total = snapshot.progress
    return f"{snapshot.note} {done:,} of {total:,}"


def event_lines(last: Snapshot | None, now: Snapshot) -> list[str]:
    """The events between two snapshots, oldest first, one line each."""
    lines: list[str] = []
    if last is not None and last.generation != now.generation and last.plan not in ("clusters", "baselines", "final"):
        lines.append(_generation_finished(last.generation, now))
    if last is None or (last.plan, last.generation) != (now.plan, now.generation):
        lines.append(_headline(now))
    before = {candidate.node: candidate for candidate in last.candidates} if last is not None else {}
    lines += [
        text for candidate in now.candidates if (text := _candidate_finished(before.get(candidate.node), candidate))
    ]
    if (
        now.progress is None
        and now.note
        and (last is None or _without_numbers(last.note) != _without_numbers(now.note))
    ):
        lines.append(now.note)
    return lines


def _without_numbers(note: str) -> str:
    """The note without its numbers: a note in which only a number changed is not a new event."""
    return re.sub(r"[\d,.]+", "#", note)


def _headline(now: Snapshot) -> str:
    if now.plan in ("clusters", "baselines", "final"):
        return f"run {now.run}: {PLANS[now.plan]}"
    # From 0, as in the names of nodes and in all files.
    which = f"generation {now.generation} ({now.generation + 1} of {now.generations})"
    if now.plan in ("population", "validation"):
        return f"{which}: {PLANS[now.plan]} ({len(now.candidates)})"
    baseline = f"{now.baseline_name} {format_score(now.baseline)}"
    fitness = f"best {format_score(now.best)}, mean {format_score(now.mean)}, {baseline}"
    return f"{which}: {fitness}; {PLANS['offspring']} ({len(now.candidates)})"


def _generation_finished(generation: int, now: Snapshot) -> str:
    """`now` may hold work of the next generation; its totals do not."""
    totals = now.totals
    at_end = now if totals is None else replace(now, **{f.name: getattr(totals, f.name) for f in fields(totals)})
    used = ", ".join(usage_parts(at_end))
    left = "" if now.left_s is None else f", about {format_duration(now.left_s)} left"
    took = f"{format_duration(now.elapsed_s)} so far{left}"
    return f"generation {generation} finished: best so far {format_score(now.best_ever)}; {used}; {took}"


def usage_parts(now: Snapshot) -> list[str]:
    """Evaluations, calls, tokens and cost so far."""
    cost = "cost unknown" if now.cost_usd is None else format_cost(now.cost_usd, now.budget_usd)
    evaluations = f"evaluations {format_evaluations(now.evaluations)}"
    return [evaluations, f"{now.calls:,} calls", f"{now.tokens:,} tokens", cost]


def _candidate_finished(before: CandidateView | None, candidate: CandidateView) -> str:
    if candidate.stage not in ("done", "failed") or (before is not None and before.stage == candidate.stage):
        return ""
    if candidate.stage == "failed":
        return f"  {candidate.node} FAILED: {candidate.error or 'no reason given'}"
    what = "" if candidate.target is None else f", cluster {candidate.target} changed"
    return f"  {candidate.node} done: fitness {format_score(candidate.fitness)}{what}"
