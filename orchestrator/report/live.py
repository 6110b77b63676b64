"""Watching a run: `Snapshot`, the state of a run at one moment, as plain lines or as the live display of a terminal."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TextIO

from orchestrator.report.format import format_cost, format_duration, format_evaluations, format_score
from tasks.common.text import escape_control
from tasks.plan import Evaluations

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

STAGES = {
    "clusters": "preparing the run",
    "plain": "measuring the plain model",
    "prompts": "measuring the system prompts",
    "vectors": "measuring the vectors that need no search",
    "population": "evaluating the population",
    "offspring": "breeding and evaluating children",
    "random": "measuring random vectors",
    "front": "measuring the front",
    "ordering": "putting the front in order",
    "validation": "testing on the validation questions",
    "rivals": "measuring what is free in every engine",
    "test": "measuring the winner on the test questions",
    "everyday": "measuring questions of another kind",
    "final": "comparing the answers",
}
"""What a run is at, by stage; beside `clusters` and those OF_A_GENERATION they are the plans that no search makes."""
OF_A_GENERATION = ("population", "offspring")
FAILURES = 2  # whose errors the live display has
EVERY_S = 15.0
"""A stage that lasts longer says every so often how far it is."""


@dataclass(frozen=True)
class Snapshot:
    """The state of a run at a stage of STAGES; None is what is unknown.

    `best` and `mean` are of the current population, `baseline` is the fitness of the start.  `progress` is (done,
    total) of the work that `note` names, `left_s` the seconds that are left of it.  `failed` has the errors of the
    candidates of the plan in flight that failed, by node.
    """

    run: str
    generation: int
    generations: int
    plan: str
    candidates: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)
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
    evaluations: Evaluations = field(default_factory=Evaluations)
    arm: str = ""


class Pace:
    """How long work still takes, by its pace since this object was first asked."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None
        self._last = (0.0, -1)

    def left(self, done: int, total: int) -> float | None:
        """In seconds; None when the work is done or late, and before a tenth of it has been seen to be done."""
        now = time.monotonic()
        began, before = self._first = self._first or (now, done)
        if done != self._last[1]:
            self._last = (now, done)
        if done >= total or (done - before) * 10 < total - before:
            return None
        changed = self._last[0]
        left = (changed - began) / (done - before) * (total - done) - (now - changed)
        return left if left > 0 else None

    def told(self, done: int, total: int, unit: str) -> str:
        """`12 of 40 batches, about 3 min 20 s left`."""
        left = self.left(done, total)
        return f"{done:,} of {total:,} {unit}" + ("" if left is None else f", about {format_duration(left)} left")


class View:
    """Shows a run: a line for each stage, and while it lasts how far it is, with the time of day, for logs and pipes.

    The driver calls `show` after each poll; `notify` is for what must be displayed; `close` may be called twice.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last: Snapshot | None = None
        self._written = datetime.now()

    def show(self, snapshot: Snapshot) -> None:
        last, self._last = self._last, snapshot
        for text in event_lines(last, snapshot):
            self.notify(text)
        if snapshot.progress is not None and (datetime.now() - self._written).total_seconds() >= EVERY_S:
            self.notify(f"  {_progress_text(snapshot)}")

    def notify(self, text: str) -> None:
        self._written = datetime.now()
        self._stream.write(f"{self._written:%H:%M:%S}  {escape_control(text)}\n")
        self._stream.flush()

    def tick(self, text: str) -> None:
        """Called often: what is waited for, where no stage has said so for a while."""
        if (datetime.now() - self._written).total_seconds() >= EVERY_S:
            self.notify(f"  {text}")

    def close(self) -> None:
        self._stream.flush()


class TerminalView(View):
    """Redraws in place on each `show`, without a thread; `close` removes the display."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__(stream)
        self._console = Console(file=stream, highlight=False, markup=False, force_terminal=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop")

    def show(self, snapshot: Snapshot) -> None:
        self._live.start()  # nothing, where it is on
        self._live.update(screen(snapshot), refresh=True)
        self._written = datetime.now()

    def notify(self, text: str) -> None:
        self._written = datetime.now()
        self._console.print(escape_control(text))  # above the live part

    def close(self) -> None:
        self._live.stop()


def open_view(stream: TextIO, *, plain: bool = False) -> View:
    """The live view when `stream` is a terminal that can move its cursor; plain lines otherwise, or when asked for."""
    can_move = stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
    return TerminalView(stream) if can_move and not plain else View(stream)


def screen(now: Snapshot) -> Group:
    """A snapshot laid out for a terminal."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    def line(text: str, style: str = "") -> Text:
        return Text(escape_control(text), style, no_wrap=True, overflow="ellipsis")

    parts: list[RenderableType] = [
        line(f"{now.run}  {_generation(now)}  {format_duration(now.elapsed_s)}{_left(now)}", "bold")
    ]
    if now.best_ever is not None:
        fitness = f"start {format_score(now.baseline)}, best now {format_score(now.best)}"
        parts.append(line(f"best so far {format_score(now.best_ever)}, {fitness}, mean {format_score(now.mean)}"))
    parts.append(line(STAGES[now.plan], "dim"))
    parts += [line(f"{node} failed: {error}", "red") for node, error in [*now.failed.items()][:FAILURES]]
    if now.progress is not None:
        done, total = now.progress
        parts += [line(_progress_text(now)), ProgressBar(total=max(total, 1), completed=done, width=60)]
    elif now.note:
        parts.append(line(now.note, "yellow"))
    queues = "  ".join(f"{name} {depth}" for name, depth in now.queues.items())
    foot = [line(usage_text(now), "dim"), line(f"queued  {queues or 'nothing'}", "dim")]
    return Group(*parts, line(""), *foot)


def event_lines(last: Snapshot | None, now: Snapshot) -> Iterator[str]:
    """The events between two snapshots, oldest first, one line each."""
    if last is None or (last.plan, last.generation) != (now.plan, now.generation):
        yield _headline(now)
    yield from (
        f"  {node} FAILED: {now.failed[node]}" for node in now.failed if last is None or node not in last.failed
    )
    # A note in which only a number changed is not a new event.
    notes = [re.sub(r"[\d,.]+", "#", snapshot.note) for snapshot in (last, now) if snapshot is not None]
    if now.progress is None and now.note and (last is None or notes[0] != notes[1]):
        yield now.note


def _headline(now: Snapshot) -> str:
    what = STAGES[now.plan] + (f" ({now.candidates})" if now.candidates else "")
    return f"{_generation(now)}: {what}" if now.plan in OF_A_GENERATION else what


def _generation(now: Snapshot) -> str:
    """From 0, as in the names of nodes and in all files."""
    return f"generation {now.generation} of {now.generations}" + (f", {now.arm}" if now.arm else "")


def _left(now: Snapshot) -> str:
    return "" if now.left_s is None else f", about {format_duration(now.left_s)} left"


def _progress_text(now: Snapshot) -> str:
    """`embedding vocabulary 12,288 of 49,152, about 20 s left`."""
    done, total = now.progress or (0, 0)
    tokens = f", {now.tokens:,} tokens so far" if now.tokens else ""
    return f"{now.note} {done:,} of {total:,}{_left(now)}{tokens}"


def usage_text(now: Snapshot) -> str:
    """Evaluations, calls, tokens and cost so far."""
    cost = "cost unknown" if now.cost_usd is None else format_cost(now.cost_usd, now.budget_usd)
    evaluations = f"evaluations {format_evaluations(now.evaluations)}"
    return f"{evaluations}, {now.calls:,} calls, {now.tokens:,} tokens, {cost}"
