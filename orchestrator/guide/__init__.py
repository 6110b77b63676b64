"""The run kind `guide`: a frozen model that judges tickets learns the rules in its prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.guide.run import StageBPipeline

__all__ = ["StageBPipeline"]


def __getattr__(name: str) -> Any:
    if name == "StageBPipeline":  # imported when it is used: commands start without what it needs
        from orchestrator.guide.run import StageBPipeline

        return StageBPipeline
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
