"""Watching a run: plain lines, and the live display of a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from orchestrator.report.live import Snapshot, open_view, screen
from tasks.plan import Evaluations

SNAPSHOT = Snapshot(
    "quiet-1", 2, 8, "offspring", 6, {"g2_child2_pre": "refused \x1b[31m[bold]thrice"}, 0.71, 0.67, 0.72, 0.65,
    {"gpu": 3, "openai": 1}, 83.0, 130.0, 124, 53120, 0.01, note="stages", progress=(5, 12),
    evaluations=Evaluations(20, 4, 6),
)  # fmt: skip


@pytest.mark.parametrize("width", [48, 140])
def test_the_live_display_fits_and_says_how_far_it_is_and_what_failed(width: int) -> None:
    console = Console(width=width, height=14, no_color=True)
    with console.capture() as capture:
        console.print(screen(SNAPSHOT))
    text = capture.get()
    assert len(text.splitlines()) < 14 and all(len(line) <= width for line in text.splitlines())
    assert "stages 5 of 12" in text and "g2_child2_pre failed: refus" in text and "\x1b" not in text


@pytest.mark.parametrize(
    ("is_terminal", "term", "plain", "is_live"),
    [
        (True, "xterm-256color", False, True),
        (True, "dumb", False, False),
        (False, "xterm", False, False),
        (True, "xterm", True, False),
    ],
)
def test_a_terminal_gets_the_live_display_and_all_else_plain_lines(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, term: str, plain: bool, is_live: bool
) -> None:
    monkeypatch.setenv("TERM", term)
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal, raising=False)
    view = open_view(stream, plain=plain)
    view.show(SNAPSHOT)
    view.notify("a worker was lost")
    view.close()
    view.close()
    text = stream.getvalue()
    assert "a worker was lost" in text and ("\x1b[?25h" in text) == is_live
