"""A run at one moment, as a person watches it: what the driver knows and a view shows. Plain data, no drawing.

How a run is watched: one Protocol, and the choice between a terminal and plain lines.

A run as plain lines, for logs and pipes: one when something happened that a reader would care about.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol, TextIO

from orchestrator.report.formatting import duration, score, spent

Stage = Literal["waiting", "merge", "answer", "judge", "score", "reflect", "done", "failed"]
Phase = Literal["pre", "mut"]
Plan = Literal["clusters", "population", "offspring", "final"]

EVALUATION: tuple[Stage, ...] = ("answer", "judge", "score")


@dataclass(frozen=True)
class CandidateView:
    """One individual on its way. `target` is the cluster that its mutation changes, None when it is not mutated.

    `phase` says which of a mutated child's two evaluations `stage` belongs to; `merges` is False for a child that
    was cloned from one parent, and for the candidates of a population.
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
    cost_usd: float = 0.0
    budget_usd: float = 0.0  # 0 is none
    note: str = ""
    progress: tuple[int, int] | None = None


def steps(candidate: CandidateView) -> tuple[tuple[Phase, Stage], ...]:
    """The stages this candidate passes, in order (genetic_evolution_plan.md section 3: two evaluations if mutated)."""
    first: tuple[Stage, ...] = ("merge", *EVALUATION) if candidate.merges else EVALUATION
    second: tuple[Stage, ...] = ("reflect", *EVALUATION) if candidate.target is not None else ()
    return tuple(("pre", stage) for stage in first) + tuple(("mut", stage) for stage in second)


def steps_done(candidate: CandidateView) -> int:
    """How many of `steps(candidate)` are done.  A reflection belongs to the second phase, whatever `phase` says."""
    path = steps(candidate)
    if candidate.stage == "done":
        return len(path)
    phase: Phase = "mut" if candidate.stage == "reflect" else candidate.phase
    return path.index((phase, candidate.stage)) if (phase, candidate.stage) in path else 0


class View(Protocol):
    """Somebody is watching, or a log is written.

    The driver calls `show` after each poll, as often as it likes: a view decides what is worth showing.  `line` is for
    what must not be missed, such as a parked run.  `close` leaves the terminal as it was found, may be called twice,
    and is called on every way out; nothing may be shown after it.  A view is used by one thread.
    """

    def show(self, snapshot: Snapshot) -> None: ...

    def line(self, text: str) -> None: ...

    def close(self) -> None: ...


def open_view(stream: TextIO, force: Literal["terminal", "plain"] | None = None) -> View:
    """The live view when `stream` is a terminal that can move its cursor, plain lines otherwise.

    `force` decides in place of the stream.
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
    "final": "comparing the best with the zero vector",
}


class PlainView:
    """A line, with its time of day, whenever something happened that a reader would care about."""

    def __init__(self, stream: TextIO, clock: Callable[[], datetime] = datetime.now) -> None:
        self._stream = stream
        self._clock = clock
        self._last: Snapshot | None = None
        self._tenth = -1

    def show(self, snapshot: Snapshot) -> None:
        last, self._last = self._last, snapshot
        for text in news(last, snapshot):
            self.line(text)
        self._show_progress(last, snapshot)

    def line(self, text: str) -> None:
        self._stream.write(f"{self._clock():%H:%M:%S}  {printable(text)}\n")
        self._stream.flush()

    def close(self) -> None:
        self._stream.flush()

    def _show_progress(self, last: Snapshot | None, snapshot: Snapshot) -> None:
        """What takes minutes is told in tenths, not in polls."""
        if snapshot.progress is None:
            self._tenth = -1
            return
        done, total = snapshot.progress
        tenth = 10 * done // max(total, 1)
        if tenth != self._tenth or last is None or last.note != snapshot.note:
            self._tenth = tenth
            self.line(progress_text(snapshot))


def printable(text: str) -> str:
    """One line, whatever an error message or a model's text held."""
    return "".join(character if character.isprintable() else " " for character in text)


def progress_text(snapshot: Snapshot) -> str:
    """`embedding vocabulary 12,288 of 49,152`, or the note alone."""
    if snapshot.progress is None:
        return snapshot.note
    done, total = snapshot.progress
    return f"{snapshot.note} {done:,} of {total:,}"


def news(last: Snapshot | None, now: Snapshot) -> list[str]:
    """What happened between two snapshots, oldest first, one line each."""
    lines: list[str] = []
    if last is not None and last.generation != now.generation and last.plan != "clusters":
        lines.append(_generation_over(last.generation, now))
    if last is None or (last.plan, last.generation) != (now.plan, now.generation):
        lines.append(_headline(now))
    before = {candidate.node: candidate for candidate in last.candidates} if last is not None else {}
    lines += [text for candidate in now.candidates if (text := _candidate_over(before.get(candidate.node), candidate))]
    if now.progress is None and now.note and (last is None or _wording(last.note) != _wording(now.note)):
        lines.append(now.note)
    return lines


def _wording(note: str) -> str:
    """A note that only counts on is not news."""
    return re.sub(r"[\d,.]+", "#", note)


def _headline(now: Snapshot) -> str:
    if now.plan in ("clusters", "final"):
        return f"run {now.run}: {PLANS[now.plan]}"
    # Counted from 0, as in the names of the nodes and in all files.
    which = f"generation {now.generation} ({now.generation + 1} of {now.generations})"
    if now.plan == "population":
        return f"{which}: {PLANS['population']} ({len(now.candidates)})"
    standing = f"best {score(now.best)}, mean {score(now.mean)}, zero vector {score(now.baseline)}"
    return f"{which}: {standing}; {PLANS['offspring']} ({len(now.candidates)})"


def _generation_over(generation: int, now: Snapshot) -> str:
    used = f"{now.calls:,} calls, {now.tokens:,} tokens, {spent(now.cost_usd, now.budget_usd)}"
    left = "" if now.left_s is None else f", about {duration(now.left_s)} left"
    took = f"{duration(now.elapsed_s)} so far{left}"
    return f"generation {generation} finished: best so far {score(now.best_ever)}; {used}; {took}"


def _candidate_over(before: CandidateView | None, candidate: CandidateView) -> str:
    if candidate.stage not in ("done", "failed") or (before is not None and before.stage == candidate.stage):
        return ""
    if candidate.stage == "failed":
        return f"  {candidate.node} FAILED: {candidate.error or 'no reason given'}"
    what = "" if candidate.target is None else f", cluster {candidate.target} changed"
    return f"  {candidate.node} done: fitness {score(candidate.fitness)}{what}"
