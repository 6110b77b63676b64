"""The clusters that settings ask for, known before the vocabulary is clustered: their ids, and which are pinned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.records import ClusteredBy

if TYPE_CHECKING:
    from orchestrator.settings.options import Settings

LARGEST = 2  # of the clusters of k-means, the largest comes first


@dataclass(frozen=True)
class ClusterLayout:
    """Clusters 0 to `count` - 1.  `last` is how the last id follows from an option, for messages.

    `rest` is the cluster of the tokens that no answer used; clusters by meaning have none.
    """

    count: int
    last: str
    rest: int | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all clusters in numerical order."""
        return tuple(str(cluster) for cluster in range(self.count))


def cluster_layout(by: ClusteredBy, clusters: int) -> ClusterLayout:
    """By meaning: 0, 1 and those of k-means.  By waste: ends of a turn, numbers, line breaks, the buckets, the rest."""
    if by == "waste":
        return ClusterLayout(clusters + 4, "CLUSTERS + 3", rest=clusters + 3)
    return ClusterLayout(clusters + 2, "CLUSTERS + 1")


def layout_of(settings: Settings) -> ClusterLayout:
    return cluster_layout(settings.clusters_by, settings.clusters)


def pinned_positions(layout: ClusterLayout, optimiser: str) -> tuple[int, ...]:
    """The positions of the clusters whose deltas stay as they are.

    The same amount added to all logits changes no probability, so a cluster can be pinned without losing a solution.
    By waste it is the rest.  By meaning it is the largest of k-means; "reflective" alone searches all clusters then.
    """
    if layout.rest is not None:
        return (layout.rest,)
    return () if optimiser == "reflective" else (LARGEST,)


def pinned_of(settings: Settings) -> tuple[int, ...]:
    return pinned_positions(layout_of(settings), settings.optimiser)
