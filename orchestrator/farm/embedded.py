"""What the orchestrator uses of the package `workers`: the embedded farm, and processes of its own.

Other modules of the orchestrator import these names from here; only `orchestrator/farm` imports `workers`.
"""

from __future__ import annotations

from workers.embedded import control
from workers.embedded.endpoint import ENDPOINT_KEY_VARIABLE
from workers.embedded.farm import FarmSpec, FarmStatus
from workers.embedded.models import embedded_model
from workers.processes.process import (
    ChildProcess,
    Command,
    ProcessFailed,
    describe_exit,
    is_healthy,
    log_tail,
)

__all__ = [
    "ENDPOINT_KEY_VARIABLE",
    "ChildProcess",
    "Command",
    "FarmSpec",
    "FarmStatus",
    "ProcessFailed",
    "control",
    "describe_exit",
    "embedded_model",
    "is_healthy",
    "log_tail",
]
