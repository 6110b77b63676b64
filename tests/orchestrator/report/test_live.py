"""Watching a run: plain lines, and the live display of a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from orchestrator.report.live import CandidateView, Snapshot, open_view, screen
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


def drawn(snapshot: Snapshot, width: int = 100, height: int = 24) -> list[str]:
    console = Console(width=width, height=height, no_color=True)
    with console.capture() as capture:
        console.print(screen(snapshot, height))
    return capture.get().splitlines()


@pytest.mark.parametrize(("width", "height"), [(48, 14), (140, 40)])
def test_the_live_display_fits_and_says_where_each_individual_is(width: int, height: int) -> None:
    lines = drawn(SNAPSHOT, width, height)
    assert len(lines) < height and all(len(line) <= width for line in lines)
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.startswith("g2_") and "failed:" not in line}
    assert rows["g2_child0_pre"] == ["done", "0.6100"]
    assert rows["g2_child1_mut"] == ["judge", "cluster", "3"]
    assert "\x1b" not in "".join(lines)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "term", "plain", "is_live"),
    [
        (Terminal(), "xterm-256color", False, True),
        (Terminal(), "dumb", False, False),
        (io.StringIO(), "xterm", False, False),
        (Terminal(), "xterm", True, False),
    ],
)
def test_a_terminal_gets_the_live_display_and_all_else_plain_lines(stream, term, plain, is_live, monkeypatch) -> None:
    monkeypatch.setenv("TERM", term)
    view = open_view(stream, plain=plain)
    view.show(SNAPSHOT)
    view.notify("a worker was lost")
    view.close()
    view.close()
    text = stream.getvalue()
    assert "a worker was lost" in text and ("\x1b[?25h" in text) == is_live
