"""The live view, drawn into a real pseudo-terminal of a given size."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from dataclasses import replace

import pytest
from rich.console import Console

from orchestrator.report.terminal import Screen
from orchestrator.report.view import CandidateView, Snapshot
from tasks.plan import Evaluations

CHILDREN = (
    CandidateView("g2_child0_pre", "done", fitness=0.61),
    CandidateView("g2_child1_pre", "judge", target="3", merges=True),
    CandidateView("g2_child2_mut", "answer", phase="mut", target="11", fitness=0.6, merges=True),
    CandidateView("g2_child3_pre", "failed", target="4", error="refused \x1b[31m[bold]thrice"),
)
SNAPSHOT = Snapshot(
    "quiet-1", 2, 8, "offspring", CHILDREN, 0.71, 0.67, 0.72, 0.65,
    {"gpu": 3, "openai": 1}, 83.0, 130.0, 124, 53120, 0.01, baseline_name="zero vector",
    evaluations=Evaluations(20, 4, 6),
)  # fmt: skip


def drawn(snapshot: Snapshot, width: int, height: int) -> list[str]:
    console = Console(width=width, height=height, force_terminal=True, no_color=True)
    with console.capture() as capture:
        console.print(Screen(snapshot))
    return [re.sub(r"\x1b\[[\d;]*m", "", line) for line in capture.get().splitlines()]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (140, 40)])
def test_the_screen_fits_and_shows_every_child_where_it_is(width: int, height: int) -> None:
    lines = drawn(SNAPSHOT, width, height)
    assert len(lines) < height and all(len(line) <= width for line in lines)
    rows = {line.split()[0]: line for line in lines if line.startswith("g2_")}
    assert (
        rows["g2_child0_pre"].count("✓") == 3 and "done" in rows["g2_child0_pre"] and "0.6100" in rows["g2_child0_pre"]
    )
    assert rows["g2_child1_pre"].count("✓") == 2 and rows["g2_child1_pre"].count("●") == 1
    assert rows["g2_child2_mut"].count("✓") == 5 and "answer" in rows["g2_child2_mut"]
    assert len({line.index("│") for line in lines if "│" in line}) == 1


def test_a_small_terminal_still_says_where_each_child_is() -> None:
    lines = drawn(SNAPSHOT, 48, 14)
    assert lines[0].startswith("generation 2 (3 of 8)  1 min 23 s")
    assert len(lines) <= 14 and all(len(line) <= 48 for line in lines)
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.startswith("g2_")}
    assert rows["g2_child0_pre"] == ["done", "0.6100"]
    assert rows["g2_child2_mut"] == ["answer", "11", "0.6000"]
    lines = drawn(SNAPSHOT, 40, 14)  # the fitness matters more than the cluster
    assert all(len(line) <= 40 for line in lines)
    assert ["g2_child2_mut", "answer", "0.6000"] in [line.split() for line in lines]


def test_heading_and_foot_say_how_far_how_good_and_how_busy() -> None:
    text = "\n".join(drawn(SNAPSHOT, 80, 24))
    assert "quiet-1" in text and "generation 2 (3 of 8)" in text and "about 2 min 10 s left" in text
    assert "best so far 0.7200 (+0.0700)  zero vector 0.6500  best now 0.7100, mean 0.6700" in text
    assert "gpu 3  openai 1" in text and "124 calls  53,120 tokens  $0.0100" in text
    assert "evaluations 20 computed, 4 from the cache, 6 carried over" in text
    assert "g2_child3_pre failed: refused \\x1b[31m[bold]thrice" in text


def test_a_large_population_shows_those_at_work_and_counts_the_rest() -> None:
    # given 30 children of which the last two are at work
    stages = ["done"] * 20 + ["waiting"] * 8 + ["answer"] * 2
    crowd = tuple(CandidateView(f"g2_child{j}_pre", stage) for j, stage in enumerate(stages))
    # when drawn on a small terminal
    lines = drawn(replace(SNAPSHOT, candidates=crowd), 80, 24)
    # then those at work are there and the count is whole
    assert len(lines) <= 24
    shown = [line.split()[0] for line in lines if line.startswith("g2_")]
    assert {"g2_child28_pre", "g2_child29_pre"} <= set(shown)
    hidden = next(line for line in lines if line.startswith("and "))
    assert len(shown) + sum(map(int, re.findall(r"\d+", hidden))) == 30


def test_embedding_the_vocabulary_shows_a_bar_that_moves() -> None:
    def lines_at(done: int) -> list[str]:
        progress = Snapshot("r", 0, 8, "clusters", note="embedding vocabulary", progress=(done, 49152))
        return drawn(progress, 80, 24)

    assert "embedding vocabulary 12,288 of 49,152" in lines_at(12288)
    assert lines_at(0) != lines_at(24576)


SCRIPT = """
import sys
from orchestrator.report.opening import open_view
from orchestrator.report.view import CandidateView, Snapshot
view = open_view(sys.stdout)
for stage in ("waiting", "answer", "judge", "score", "done"):
    view.show(Snapshot("quiet-1", 0, 2, "population", (CandidateView("g0_pop0", stage),)))
view.notify("a worker was lost")
view.close()
view.close()
print("the report")
"""


def test_in_a_real_terminal_it_redraws_in_place_and_gives_the_terminal_back() -> None:
    # given a process whose output is a terminal of 80 x 24
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(sys.path)}
    # when it shows five snapshots
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    output = _read_all(ours)
    assert process.wait(timeout=30) == 0
    # then every stage was drawn over the last, the cursor is visible again, and what follows stands alone
    assert output.count("g0_pop0") >= 5 and "\x1b[1A" in output
    assert output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l")
    assert "a worker was lost" in output
    assert "g0_pop0" not in output[output.rindex("\x1b[2K") :]
    assert output.rstrip().endswith("the report")


def _read_all(terminal: int) -> str:
    """Until the other side is closed, which Linux reports as an error."""
    data = b""
    while select.select([terminal], [], [], 30)[0]:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            break
        if not piece:
            break
        data += piece
    os.close(terminal)
    return data.decode()
