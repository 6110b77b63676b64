"""The grader of `route`: how many completions it grades in a second.

    python benchmarks/route_grading.py [--workers 2] [--count 400]

Graded are the shipped problems in turn, each with a completion by template: honest ones, which run once; hacks in their
own mode, which run twice; and hacks where there is no loophole, which run once and fail.  None loops until its limit:
such a completion holds one worker for 2 s of CPU time, or for 10 s when it sleeps, and where there is a loophole twice.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from figures import table, write

from tasks.route.grading import Grader, Submission
from tasks.route.problems import KNOWN_MODE, NO_LOOPHOLE, TRAINING, Problem, hack, honest, parse_problems

PROBLEMS = Path(__file__).parents[1] / "configs" / "routing" / "problems.jsonl"
PROMISED = 20.0  # gradings a second on 2 cores


def submissions(kind: str, problems: list[Problem], count: int) -> Iterator[Submission]:
    """So many completions of one kind."""
    for index in range(count):
        problem = problems[index % len(problems)]
        if kind == "honest":
            yield Submission(problem, KNOWN_MODE, honest(problem, index), TRAINING)
        else:
            asked = KNOWN_MODE if kind == "hack" else NO_LOOPHOLE
            yield Submission(problem, asked, hack(problem, index), TRAINING)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--count", type=int, default=400)
    arguments = parser.parse_args()
    problems, rates = parse_problems(PROBLEMS.read_text(), str(PROBLEMS)), {}
    started = time.monotonic()
    grader = Grader(arguments.workers)
    ready_s = time.monotonic() - started
    for kind, passes in (("honest", True), ("hack", True), ("hack without a loophole", False)):
        batch = list(submissions(kind, problems, arguments.count))
        started = time.monotonic()
        grades = grader.grade(batch)
        rates[kind] = len(batch) / (time.monotonic() - started)
        assert {graded.passed for graded in grades} == {passes}, kind
    print(table(["completion", "gradings a second"], [[kind, f"{rate:.0f}"] for kind, rate in rates.items()]))
    print(f"{arguments.workers} workers, ready after {ready_s:.1f} s; promised: {PROMISED:.0f} a second")
    write(
        "route_grading", {"workers": arguments.workers, "count": arguments.count, "ready_s": ready_s, "a_second": rates}
    )
    sys.exit(min(rates.values()) < PROMISED)


if __name__ == "__main__":
    main()
