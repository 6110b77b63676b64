"""`python -m tasks.gpu.training bases|train|evaluate`: one job, given as JSON on stdin (tasks/gpu/compute/child.py)."""

from __future__ import annotations

import json
import sys

from tasks.gpu.compute.child import work_as_child
from tasks.gpu.training.work import evaluate, find_bases, run_trajectory

WORK = {"bases": find_bases, "train": run_trajectory, "evaluate": evaluate}

if __name__ == "__main__":
    given = json.load(sys.stdin)
    raise SystemExit(work_as_child(lambda report: WORK[sys.argv[1]](given, report)))
