"""A run as plain lines, for logs and pipes: one when something happened that a reader would care about."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import TextIO

from orchestrator.report.figures import duration, score, spent
from orchestrator.report.snapshot import MemberView, Snapshot

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
    before = {member.node: member for member in last.members} if last is not None else {}
    lines += [text for member in now.members if (text := _member_over(before.get(member.node), member))]
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
        return f"{which}: {PLANS['population']} ({len(now.members)})"
    standing = f"best {score(now.best)}, mean {score(now.mean)}, zero vector {score(now.baseline)}"
    return f"{which}: {standing}; {PLANS['offspring']} ({len(now.members)})"


def _generation_over(generation: int, now: Snapshot) -> str:
    used = f"{now.calls:,} calls, {now.tokens:,} tokens, {spent(now.cost_usd, now.budget_usd)}"
    left = "" if now.left_s is None else f", about {duration(now.left_s)} left"
    took = f"{duration(now.elapsed_s)} so far{left}"
    return f"generation {generation} finished: best so far {score(now.best_ever)}; {used}; {took}"


def _member_over(before: MemberView | None, member: MemberView) -> str:
    if member.stage not in ("done", "failed") or (before is not None and before.stage == member.stage):
        return ""
    if member.stage == "failed":
        return f"  {member.node} FAILED: {member.error or 'no reason given'}"
    what = "" if member.target is None else f", cluster {member.target} changed"
    return f"  {member.node} done: fitness {score(member.fitness)}{what}"
