"""Watching a run in plain lines, and which view is opened where."""

from __future__ import annotations

import io
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from orchestrator.report.formatting import baseline_name
from orchestrator.report.opening import open_view
from orchestrator.report.plain import PlainView
from orchestrator.report.view import CandidateView, Snapshot, Totals, steps, steps_done
from tasks.plan import Evaluations

ROOT = Path(__file__).parents[3]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watch(*snapshots: Snapshot) -> list[str]:
    stream = io.StringIO()
    view = PlainView(stream, clock=lambda: datetime(2030, 1, 2, 3, 4, 5))
    for snapshot in snapshots:
        view.show(snapshot)
    view.close()
    return stream.getvalue().splitlines()


def offspring(*candidates: CandidateView, generation: int = 1, **more) -> Snapshot:
    return Snapshot(
        "quiet-1",
        generation,
        3,
        "offspring",
        candidates,
        best=0.5,
        mean=0.4,
        baseline=0.3,
        baseline_name="zero vector",
        **more,
    )


def test_a_child_is_told_once_when_it_is_done_and_not_for_every_stage() -> None:
    stages = ("waiting", "answer", "answer", "judge", "score", "done", "done")
    told = watch(*(offspring(CandidateView("g1_child0_pre", s, fitness=0.61 if s == "done" else None)) for s in stages))
    assert told == [
        "03:04:05  generation 1 (2 of 3): best 0.5000, mean 0.4000, zero vector 0.3000; "
        "breeding and evaluating children (1)",
        "03:04:05    g1_child0_pre done: fitness 0.6100",
    ]


def test_a_failure_is_told_with_its_reason_on_one_line() -> None:
    child = CandidateView("g1_child0_pre", "failed", error="refused\n\x1b[2Jtwice")
    assert watch(offspring(child))[-1] == "03:04:05    g1_child0_pre FAILED: refused \\x1b[2Jtwice"


def test_a_finished_generation_is_told_with_what_it_took() -> None:
    told = watch(
        offspring(generation=0),
        offspring(
            generation=1,
            best_ever=0.7,
            calls=12,
            tokens=3400,
            cost_usd=0.5,
            elapsed_s=70,
            left_s=140,
            evaluations=Evaluations(4, 3, 2),
        ),
    )
    assert told[1] == (
        "03:04:05  generation 0 finished: best so far 0.7000; "
        "evaluations 4 computed, 3 from the cache, 2 carried over, 12 calls, 3,400 tokens, $0.5000; "
        "1 min 10 s so far, about 2 min 20 s left"
    )


def test_what_the_next_generation_has_begun_is_not_counted_as_the_finished_one_s() -> None:
    """Given a first look at the next generation when two of its evaluations are done."""
    ended = Totals(calls=12, tokens=3400, cost_usd=0.5, evaluations=Evaluations(4, 3, 2))
    begun = {"calls": 15, "tokens": 4000, "cost_usd": 0.75, "evaluations": Evaluations(5, 4, 2)}
    told = watch(offspring(generation=0), offspring(generation=1, totals=ended, **begun))
    assert "4 computed, 3 from the cache, 2 carried over, 12 calls, 3,400 tokens, $0.5000;" in told[1]


def test_long_work_is_told_in_tenths() -> None:
    told = watch(
        *(
            Snapshot("r", 0, 3, "clusters", note="embedding vocabulary", progress=(done, 49152))
            for done in range(0, 49153, 64)
        )
    )
    assert told[1] == "03:04:05  embedding vocabulary 0 of 49,152"
    assert told[-1] == "03:04:05  embedding vocabulary 49,152 of 49,152"
    assert len(told) == 1 + 11


def test_a_note_that_only_counts_on_is_told_once() -> None:
    told = watch(*(offspring(note=f"waiting for the gpu worker, {second} s") for second in range(20)))
    assert sum("waiting" in line for line in told) == 1


def test_lines_show_what_must_not_be_missed() -> None:
    stream = io.StringIO()
    PlainView(stream, clock=lambda: datetime(2030, 1, 1)).notify("parked")
    assert stream.getvalue() == "00:00:00  parked\n"


@pytest.mark.parametrize(
    ("stream", "term", "force", "name"),
    [
        (Terminal(), "xterm-256color", None, "TerminalView"),
        (Terminal(), "dumb", None, "PlainView"),
        (Terminal(), "", None, "PlainView"),
        (io.StringIO(), "xterm", None, "PlainView"),
        (io.StringIO(), "xterm", "terminal", "TerminalView"),
        (Terminal(), "xterm", "plain", "PlainView"),
    ],
)
def test_a_terminal_gets_the_live_view_and_all_else_plain_lines(stream, term, force, name, monkeypatch) -> None:
    monkeypatch.setenv("TERM", term)
    view = open_view(stream, force)
    view.close()
    assert type(view).__name__ == name


def test_a_mutated_child_passes_two_evaluations() -> None:
    child = CandidateView("g0_child0_mut", "judge", phase="mut", target="3", merges=True)
    names = [stage for _, stage in steps(child)]
    assert names == ["merge", "answer", "judge", "score", "reflect", "answer", "judge", "score"]
    assert steps_done(child) == 6
    assert steps_done(CandidateView("g0_child0_pre", "reflect", target="3")) == 3
    assert steps_done(CandidateView("g0_pop0", "waiting")) == 0
    assert steps_done(CandidateView("g0_pop0", "done")) == len(steps(CandidateView("g0_pop0", "done"))) == 3


def test_plain_lines_need_no_drawing_library() -> None:
    script = "import sys, orchestrator.report.view, orchestrator.report.statistics; print('rich' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert answer.stdout.strip() == "False"


def test_only_deltas_of_zero_are_called_the_zero_vector() -> None:
    assert (baseline_name((0.0, 0.0)), baseline_name((0.0, -0.5))) == ("zero vector", "initial individual")
    lines = watch(Snapshot("r", 1, 3, "offspring", baseline=0.3))
    assert "initial individual 0.3000" in lines[0] and "zero vector" not in lines[0]


def test_an_unknown_cost_is_named_so() -> None:
    told = watch(offspring(generation=0), offspring(generation=1, cost_usd=None))
    assert "0 calls, 0 tokens, cost unknown;" in told[1]
