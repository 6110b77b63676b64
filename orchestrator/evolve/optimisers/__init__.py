"""Searches for deltas behind one protocol: ask for candidates, tell their outcomes, frozen state between.

A new optimiser is one module with a class that follows `base.Optimiser`, and one line of `OPTIMISERS`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.evolve.optimisers.base import Optimiser

OPTIMISERS: Mapping[str, str] = {
    "reflective": "orchestrator.evolve.optimisers.reflective:Reflective",
    "cma": "orchestrator.evolve.optimisers.cma:Cma",
    "lineage": "orchestrator.evolve.optimisers.lineage:SingleLineage",
    "random": "orchestrator.evolve.optimisers.random_search:RandomSearch",
}
"""The class of each optimiser, imported when it is asked for."""


def make_optimiser(name: str) -> Optimiser[Any, Any]:
    """The optimiser of this name."""
    module, _, member = OPTIMISERS[name].partition(":")
    optimiser: Optimiser[Any, Any] = getattr(importlib.import_module(module), member)()
    return optimiser
