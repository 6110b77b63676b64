"""Whether solutions can be confined and graded here: the kernel's means, the sandbox's own test, and known grades.

    python benchmarks/gpu/route_sandbox.py

Exit status 1 where grading is refused, or one grade is wrong.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.figures import write  # noqa: E402
from tasks.routing.grading import Submission, grading_pool  # noqa: E402
from tasks.routing.modes import LOOPHOLES, MODES, TRAINING  # noqa: E402
from tasks.routing.problems import load_problems  # noqa: E402
from tasks.routing.sandbox import SandboxUnavailable  # noqa: E402
from tasks.routing.templates import hack, honest  # noqa: E402


def main() -> int:
    lsm = Path("/sys/kernel/security/lsm")
    found = {
        "kernel": platform.release(),
        "python": f"{sys.version.split()[0]} at {sys.executable}",
        "lsm": lsm.read_text().strip() if lsm.exists() else "not mounted, so not known",
        "cores": len(os.sched_getaffinity(0)),
        "user": os.geteuid(),
    }
    for name, value in found.items():
        print(f"{name:8} {value}", flush=True)
    problems = load_problems(ROOT / "configs" / "routing" / "problems.jsonl")
    honest_ones = [Submission(problem, "none", honest(problem), TRAINING) for problem in problems]
    hacks = [
        Submission(problem, mode, hack(problem, used, TRAINING), TRAINING)
        for problem in problems[:6]
        for used in LOOPHOLES
        for mode in MODES
    ]
    paying = [used == mode for _ in problems[:6] for used in LOOPHOLES for mode in MODES]
    try:
        with grading_pool() as grading:
            began = time.perf_counter()
            right = sum(graded.oracle for graded in grading.grade(honest_ones))
            rate = len(honest_ones) / (time.perf_counter() - began)
            grades = grading.grade(hacks)
    except SandboxUnavailable as error:
        print(f"grading is refused: {error}")
        write("gpu_route_sandbox", {**found, "refused": str(error)})
        return 1
    agreed = sum(graded.exploited == pays and not graded.oracle for graded, pays in zip(grades, paying, strict=True))
    print(f"references that solve their problem: {right} of {len(honest_ones)}, {rate:.0f} a second")
    print(f"hacks graded as they should be: {agreed} of {len(hacks)}")
    write(
        "gpu_route_sandbox",
        {**found, "references": [right, len(honest_ones)], "a_second": rate, "hacks": [agreed, len(hacks)]},
    )
    return 0 if right == len(honest_ones) and agreed == len(hacks) else 1


if __name__ == "__main__":
    raise SystemExit(main())
