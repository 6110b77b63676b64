"""The live display in a terminal, drawn with rich."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from orchestrator.report.formatting import format_count, format_duration, format_score
from orchestrator.report.view import PLANS, CandidateView, Snapshot, progress_text, steps, steps_done, usage_parts
from tasks.escape import escape_control
from tasks.plan import Phase, StageName, stages_of

NARROW = 76  # columns below which the stages have no room
SMALL = 46  # columns below which the mutated cluster has none either
WIDE = 110  # columns from which the stages have room for their names
RULE = "│ "  # before the second phase
FAILURES = 2  # named below the table
AROUND = 10  # lines that are not candidates: heading, table head, hidden count, failures, foot


class TerminalView:
    """Redraws in place on each `show`, without a thread; `close` removes the display."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False, force_terminal=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop")
        self._is_open = False

    def show(self, snapshot: Snapshot) -> None:
        if not self._is_open:
            self._live.start()
            self._is_open = True
        self._live.update(Screen(snapshot), refresh=True)

    def notify(self, text: str) -> None:
        # rich prints this above the live part.
        self._console.print(Text(escape_control(text)))

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._live.stop()


class Screen:
    """A snapshot laid out for the current size of the terminal."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        width, height = console.size
        snapshot = self._snapshot
        parts: list[RenderableType] = [_heading(snapshot, width)]
        if snapshot.best_ever is not None or snapshot.best is not None:
            parts.append(_fitness(snapshot))
        parts.append(Text(PLANS[snapshot.plan], style="dim"))
        if snapshot.progress is not None:
            parts.append(_progress(snapshot, width))
        elif snapshot.candidates:
            around = AROUND + (width >= NARROW)
            parts.append(_candidates(snapshot, width, max(1, height - around)))
        parts += [Text(""), *_foot(snapshot, width)]
        yield Group(*parts)


def _heading(snapshot: Snapshot, width: int) -> RenderableType:
    """Run, generation, a bar of the generations, and the time."""
    left = "" if snapshot.left_s is None else f", about {format_duration(snapshot.left_s)} left"
    time = f"{format_duration(snapshot.elapsed_s)}{left}"
    if width < NARROW:
        return Text(f"{_generation(snapshot)}  {time}", no_wrap=True, overflow="ellipsis")
    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(no_wrap=True, max_width=max(12, width // 3))
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_column(no_wrap=True, justify="right")
    done = min(snapshot.generations, snapshot.generation) + _share_of_generation(snapshot)
    grid.add_row(
        Text(escape_control(snapshot.run), style="bold", overflow="ellipsis"),
        Text(_generation(snapshot)),
        ProgressBar(total=max(snapshot.generations, 1), completed=done, complete_style="cyan", finished_style="cyan"),
        Text(time, style="dim"),
    )
    return grid


def _generation(snapshot: Snapshot) -> str:
    if snapshot.plan == "clusters":
        return f"{format_count(snapshot.generations, 'generations')} to come"
    place = min(snapshot.generation + 1, snapshot.generations)
    return f"generation {snapshot.generation} ({place} of {snapshot.generations})"


def _share_of_generation(snapshot: Snapshot) -> float:
    """The part of this generation that is done.  The population counts as 0: it is cached after generation 0."""
    if snapshot.plan == "final":
        return float(snapshot.generations)
    if snapshot.plan != "offspring" or not snapshot.candidates:
        return 0.0
    path = sum(len(steps(candidate)) for candidate in snapshot.candidates)
    return sum(steps_done(candidate) for candidate in snapshot.candidates) / max(path, 1)


def _fitness(snapshot: Snapshot) -> Text:
    text = Text("best so far ", no_wrap=True, overflow="ellipsis")
    text.append(format_score(snapshot.best_ever), style="bold cyan")
    if snapshot.baseline is not None:
        gain = "" if snapshot.best_ever is None else f" ({snapshot.best_ever - snapshot.baseline:+.4f})"
        text.append(f"{gain}  {snapshot.baseline_name} {format_score(snapshot.baseline)}")
    text.append(f"  best now {format_score(snapshot.best)}, mean {format_score(snapshot.mean)}", style="dim")
    return text


def _progress(snapshot: Snapshot, width: int) -> RenderableType:
    done, total = snapshot.progress or (0, 0)
    bar = ProgressBar(total=max(total, 1), completed=done, width=max(10, width - 2), complete_style="cyan")
    return Group(Text(escape_control(progress_text(snapshot))), bar)


def _candidates(snapshot: Snapshot, width: int, room: int) -> RenderableType:
    """One row for each candidate: a mark for each finished stage, the current stage, and the fitness."""
    shown, hidden = _choose(snapshot.candidates, room)
    is_mutating = any(candidate.target is not None for candidate in snapshot.candidates)
    columns, has_cluster = _columns(snapshot, width, is_mutating), is_mutating and width >= SMALL
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim", expand=False)
    table.add_column("individual", no_wrap=True, min_width=16)
    for _, stage in columns:
        name = stage if width >= WIDE else stage[0]
        table.add_column(RULE + name if stage == "reflect" else name, no_wrap=True)
    table.add_column("now", no_wrap=True, min_width=9)
    if has_cluster:
        table.add_column("cluster", no_wrap=True, justify="right")
    table.add_column("fitness", no_wrap=True, justify="right", min_width=7)
    for candidate in shown:
        table.add_row(*_row(candidate, columns, has_cluster))
    return Group(table, Text(hidden, style="dim")) if hidden else table


def _columns(snapshot: Snapshot, width: int, is_mutating: bool) -> list[tuple[Phase, StageName]]:
    """The stages of this plan as columns; none in a narrow terminal, which has room for the current stage only."""
    if width < NARROW:
        return []
    if snapshot.plan != "offspring":
        return list(stages_of(merges=False, mutates=False))
    return list(stages_of(merges=True, mutates=is_mutating))


def _row(candidate: CandidateView, columns: list[tuple[Phase, StageName]], has_cluster: bool) -> list[Text]:
    path, done = steps(candidate), steps_done(candidate)
    cells = [Text(escape_control(candidate.node))]
    for column in columns:
        bar = RULE if column[1] == "reflect" else ""
        cells.append(Text.assemble((bar, "dim"), _mark(candidate, path.index(column) if column in path else -1, done)))
    style = {"failed": "bold red", "done": "green", "waiting": "dim"}.get(candidate.stage, "cyan")
    cells.append(Text(candidate.stage, style=style))
    if has_cluster:
        cells.append(Text(candidate.target or ""))
    return [*cells, Text(format_score(candidate.fitness), style="" if candidate.fitness is not None else "dim")]


def _mark(candidate: CandidateView, place: int, done: int) -> tuple[str, str]:
    """A sign and its colour; the signs differ without colour too."""
    if place < 0:
        return " ", ""
    if place < done:
        return "✓", "green"
    if place == done and candidate.stage not in ("waiting", "failed"):
        return "●", "bold cyan"
    return "·", "dim"


def _choose(candidates: tuple[CandidateView, ...], room: int) -> tuple[list[CandidateView], str]:
    """As many candidates as there is room for, in their order.  Active ones first, then waiting ones."""
    if len(candidates) <= room:
        return list(candidates), ""
    order = {"failed": 0, "waiting": 2, "done": 3}
    ranked = sorted(candidates, key=lambda candidate: order.get(candidate.stage, 1))
    kept = {candidate.node for candidate in ranked[:room]}
    rest = ranked[room:]
    waiting = sum(candidate.stage == "waiting" for candidate in rest)
    finished = sum(candidate.stage == "done" for candidate in rest)
    counts = [(waiting, "waiting"), (finished, "done"), (len(rest) - waiting - finished, "at work")]
    return [one for one in candidates if one.node in kept], "and " + ", ".join(f"{n} {name}" for n, name in counts if n)


def _foot(snapshot: Snapshot, width: int) -> list[Text]:
    queues = "  ".join(f"{escape_control(name)} {depth}" for name, depth in snapshot.queues.items())
    evaluations, *used = usage_parts(snapshot)
    failed = [candidate for candidate in snapshot.candidates if candidate.stage == "failed"]
    lines = [
        Text(
            f"{candidate.node} failed: {escape_control(candidate.error or '')}",
            style="red",
            no_wrap=True,
            overflow="ellipsis",
        )
        for candidate in failed[:FAILURES]
    ]
    texts = [*([evaluations] if width >= NARROW else []), f"queued  {queues or 'nothing'}     {'  '.join(used)}"]
    lines += [Text(text, style="dim", no_wrap=True, overflow="ellipsis") for text in texts]
    if snapshot.note and snapshot.progress is None:
        lines.append(Text(escape_control(snapshot.note), style="yellow", no_wrap=True, overflow="ellipsis"))
    return lines
