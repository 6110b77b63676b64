"""`python -m tasks.gpu.training bases|train|evaluate`: one job, given as JSON on stdin (tasks/gpu/compute/child.py)."""

from __future__ import annotations

import json
import sys

from tasks.gpu.compute.child import work_as_child
from tasks.gpu.routing.bases import BasisError
from tasks.gpu.routing.checkpoint import RouteCheckpointError
from tasks.gpu.routing.row_gradients import NotFiniteError
from tasks.gpu.training.work import evaluate, find_bases, run_trajectory
from tasks.gpu.training.worlds import WorldUnusable

WORK = {"bases": find_bases, "train": run_trajectory, "evaluate": evaluate}


def main() -> int:
    work, given = WORK[sys.argv[1]], json.load(sys.stdin)
    foreseen = (WorldUnusable, BasisError, RouteCheckpointError, NotFiniteError)
    return work_as_child(lambda report: work(given, report), *foreseen)


if __name__ == "__main__":
    raise SystemExit(main())
