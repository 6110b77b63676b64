"""Watching a run: plain lines, and the live display of a terminal."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import datetime

import pytest
from rich.console import Console

from orchestrator.report.live import CandidateView, PlainView, Snapshot, Totals, open_view, screen
from tasks.plan import Evaluations

CHILDREN = (
    CandidateView("g2_child0_pre", "done", fitness=0.61),
    CandidateView("g2_child1_mut", "judge", target="3"),
    CandidateView("g2_child2_pre", "failed", error="refused \x1b[31m[bold]thrice"),
)
SNAPSHOT = Snapshot(
    "quiet-1", 2, 8, "offspring", CHILDREN, 0.71, 0.67, 0.72, 0.65,
    {"gpu": 3, "openai": 1}, 83.0, 130.0, 124, 53120, 0.01, evaluations=Evaluations(20, 4, 6),
)  # fmt: skip


def watch(*snapshots: Snapshot) -> list[str]:
    stream = io.StringIO()
    view = PlainView(stream, clock=lambda: datetime(2030, 1, 2, 3, 4, 5))
    for snapshot in snapshots:
        view.show(snapshot)
    view.close()
    return stream.getvalue().splitlines()


def drawn(snapshot: Snapshot, width: int = 100, height: int = 24) -> list[str]:
    console = Console(width=width, height=height, no_color=True)
    with console.capture() as capture:
        console.print(screen(snapshot, height))
    return capture.get().splitlines()


def test_each_event_is_told_once() -> None:
    stages = ("waiting", "answer", "answer", "judge", "score", "done", "done")
    told = watch(
        *(replace(SNAPSHOT, candidates=(CandidateView("g2_child0_pre", stage, fitness=0.61),)) for stage in stages)
    )
    assert len(told) == 2 and "0.7100" in told[0] and "0.6100" in told[1] and told[1].startswith("03:04:05")
    failed = watch(SNAPSHOT)[-1]
    assert "g2_child2_pre" in failed and "\\x1b[31m[bold]thrice" in failed


def test_what_the_next_generation_has_begun_is_not_counted_as_the_finished_one_s() -> None:
    """Given a first look at the next generation when two of its evaluations are done."""
    ended = Totals(calls=12, tokens=3400, cost_usd=0.5, evaluations=Evaluations(4, 3, 2))
    told = watch(SNAPSHOT, replace(SNAPSHOT, generation=3, totals=ended))
    [finished] = [line for line in told if "generation 2 finished" in line]
    assert "4 computed, 3 from the cache, 2 carried over, 12 calls, 3,400 tokens, $0.5000;" in finished


def test_long_work_is_told_in_tenths_and_a_note_that_only_counts_on_once() -> None:
    work = Snapshot("r", 0, 3, "clusters", note="embedding vocabulary")
    assert len(watch(*(replace(work, progress=(done, 49152)) for done in range(0, 49153, 64)))) == 1 + 11
    told = watch(*(replace(SNAPSHOT, note=f"waiting for the gpu worker, {second} s") for second in range(20)))
    assert sum("waiting for" in line for line in told) == 1


@pytest.mark.parametrize(("width", "height"), [(48, 14), (140, 40)])
def test_the_live_display_fits_and_says_where_each_individual_is(width: int, height: int) -> None:
    lines = drawn(SNAPSHOT, width, height)
    assert len(lines) < height and all(len(line) <= width for line in lines)
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.startswith("g2_") and "failed:" not in line}
    assert rows["g2_child0_pre"] == ["done", "0.6100"]
    assert rows["g2_child1_mut"] == ["judge", "cluster", "3"]
    assert "\x1b" not in "".join(lines)


def test_a_large_population_shows_those_at_work_and_counts_the_rest() -> None:
    stages = ["done"] * 20 + ["waiting"] * 8 + ["answer"] * 2
    crowd = tuple(CandidateView(f"g2_child{j}_pre", stage) for j, stage in enumerate(stages))
    lines = drawn(replace(SNAPSHOT, candidates=crowd))
    shown = [line.split()[0] for line in lines if line.startswith("g2_")]
    assert len(lines) <= 24 and {"g2_child28_pre", "g2_child29_pre"} <= set(shown)
    assert f"and {30 - len(shown)} more" in lines


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "term", "force", "is_live"),
    [
        (Terminal(), "xterm-256color", None, True),
        (Terminal(), "dumb", None, False),
        (io.StringIO(), "xterm", None, False),
        (Terminal(), "xterm", "plain", False),
    ],
)
def test_a_terminal_gets_the_live_display_and_all_else_plain_lines(stream, term, force, is_live, monkeypatch) -> None:
    monkeypatch.setenv("TERM", term)
    view = open_view(stream, force)
    view.show(SNAPSHOT)
    view.notify("a worker was lost")
    view.close()
    view.close()
    text = stream.getvalue()
    assert "a worker was lost" in text and ("\x1b[?25h" in text) == is_live
