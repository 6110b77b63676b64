"""`orchestrator export`: what a run has found as a file for an inference engine that Whetstone does not start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.evolve.systems import SystemKind

ENGINES = ("sglang", "sglang-server", "vllm", "transformers", "llama-cpp")  # the keys of `targets.TARGETS`


def engines_for(kind: SystemKind, deltas: Sequence[float]) -> tuple[str, ...]:
    """The engines that such a system can be exported to; without deltas there is nothing for a processor to add."""
    return ENGINES if deltas else ("sglang-server",) if kind == "prompt" else ()
