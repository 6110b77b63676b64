"""A run in plain lines: one for each event, with the time of day, for logs and pipes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import datetime
from typing import TextIO

from orchestrator.report.formatting import format_duration, format_score
from orchestrator.report.view import PLANS, CandidateView, Snapshot, progress_text, usage_parts
from tasks.escape import escape_control


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
    if now.plan == "population":
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


def _candidate_finished(before: CandidateView | None, candidate: CandidateView) -> str:
    if candidate.stage not in ("done", "failed") or (before is not None and before.stage == candidate.stage):
        return ""
    if candidate.stage == "failed":
        return f"  {candidate.node} FAILED: {candidate.error or 'no reason given'}"
    what = "" if candidate.target is None else f", cluster {candidate.target} changed"
    return f"  {candidate.node} done: fitness {format_score(candidate.fitness)}{what}"
