"""Decides what runs next: command line, settings, the genetic algorithm, reports.

From Python (docs/python.md):

    import orchestrator

    run = orchestrator.evolve("configs/embedded.config", ngen=2)
    run.history()

`import orchestrator` imports nothing else; what a name needs is imported when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.api.frames import OpenRun, open_run
    from orchestrator.api.start import RunStopped, collect, evolve
    from orchestrator.callbacks import Callback, GenerationInfo, RunEnd, RunInfo
    from orchestrator.farm.connection import FarmUnavailable
    from orchestrator.output import OutputError
    from orchestrator.settings import SettingsError

_HOMES = {
    "Callback": "orchestrator.callbacks",
    "FarmUnavailable": "orchestrator.farm.connection",
    "GenerationInfo": "orchestrator.callbacks",
    "OpenRun": "orchestrator.api.frames",
    "OutputError": "orchestrator.output",
    "RunEnd": "orchestrator.callbacks",
    "RunInfo": "orchestrator.callbacks",
    "RunStopped": "orchestrator.api.start",
    "SettingsError": "orchestrator.settings",
    "collect": "orchestrator.api.start",
    "evolve": "orchestrator.api.start",
    "open_run": "orchestrator.api.frames",
}

__all__ = [
    "Callback",
    "FarmUnavailable",
    "GenerationInfo",
    "OpenRun",
    "OutputError",
    "RunEnd",
    "RunInfo",
    "RunStopped",
    "SettingsError",
    "collect",
    "evolve",
    "open_run",
]


if not TYPE_CHECKING:  # else a type checker would take every name for one that there is

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(importlib.import_module(_HOMES[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
