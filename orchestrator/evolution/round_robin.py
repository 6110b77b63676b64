"""Which cluster is mutated next: round robin over the canonical order, its position part of the saved state."""

from __future__ import annotations

from collections.abc import Sequence


class RoundRobin:
    """The driver's mutable state `rr_state` (genetic_evolution_plan.md section 1): cluster ids and `rr_idx`."""

    def __init__(self, cluster_ids: Sequence[str], rr_idx: int = 0) -> None:
        """Raises: ValueError when `rr_idx` is not a position in `cluster_ids`."""
        if not 0 <= rr_idx < len(cluster_ids):
            raise ValueError(f"rr_idx {rr_idx} is not in 0..{len(cluster_ids) - 1}")
        self.cluster_ids = tuple(cluster_ids)
        self.rr_idx = rr_idx

    def take(self) -> int:
        """The position of the target cluster of this mutation; the next call gives the next one."""
        taken = self.rr_idx
        self.rr_idx = (self.rr_idx + 1) % len(self.cluster_ids)
        return taken
