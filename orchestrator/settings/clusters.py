"""The clusters that settings ask for, known before the vocabulary is clustered: their ids, and which are pinned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.settings.references import ALL, parse_indices
from tasks.models import ClusteredBy

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


def cluster_layout(by: ClusteredBy, kmeans_clusters: int, waste_buckets: int) -> ClusterLayout:
    """By meaning: 0, 1 and those of k-means.  By waste: ends of a turn, numbers, line breaks, the buckets, the rest."""
    if by == "waste":
        return ClusterLayout(waste_buckets + 4, "WASTE_BUCKETS + 3", rest=waste_buckets + 3)
    return ClusterLayout(kmeans_clusters + 2, "KMEANS_CLUSTERS + 1")


def layout_of(settings: Settings) -> ClusterLayout:
    return cluster_layout(settings.clusters_by, settings.kmeans_clusters, settings.waste_buckets)


def pinned_positions(text: str, layout: ClusterLayout, optimiser: str) -> tuple[int, ...]:
    """The positions of the clusters whose deltas stay as they are: those that `text` names, and one in any case.

    The same amount added to all logits changes no probability, so a cluster can be pinned without losing a solution.
    By waste it is the rest.  By meaning it is the largest of k-means where `text` names none; "reflective" alone
    searches all clusters then.

    Raises: ValueError as `parse_indices`, and for a cluster that does not exist.
    """
    ranges = parse_indices(text)
    if ranges == ALL:
        return tuple(range(layout.count))
    last = max((one[-1] for one in ranges), default=-1)
    if last >= layout.count:
        raise ValueError(f"names cluster {last}, but the clusters are 0 to {layout.count - 1}")
    pinned = {index for one in ranges for index in one}
    if layout.rest is not None:
        pinned.add(layout.rest)
    elif not pinned and optimiser != "reflective":
        pinned.add(LARGEST)
    return tuple(sorted(pinned))


def pinned_of(settings: Settings) -> tuple[int, ...]:
    return pinned_positions(settings.pinned_clusters, layout_of(settings), settings.optimiser)
