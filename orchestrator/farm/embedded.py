"""What the orchestrator uses of the package `workers`: the embedded farm, and processes of its own.

Other modules of the orchestrator import these names from here; only `orchestrator/farm` imports `workers`.
"""

from __future__ import annotations

from workers.embedded import control
from workers.embedded.farm import FarmSpec, FarmStatus
from workers.processes import is_healthy

__all__ = [
    "FarmSpec",
    "FarmStatus",
    "control",
    "is_healthy",
]
