"""What a run was made with beside its settings: `clusters.json` and `versions.json` in the output folder.

The clusters are those that the deltas belong to, with examples of their tokens, so that the folder can be read where
the clustering is not.  The versions are of each session that had other ones than the session before.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

from typing_extensions import TypedDict

from orchestrator.evolve.systems import Arm
from orchestrator.runs.folder import OutputFolder, read_state
from tasks.store.store import Store
from tasks.store.workers import code_version

CLUSTERS_FILE, VERSIONS_FILE = "clusters.json", "versions.json"
PACKAGES = ("whetstone-farm", "celery", "redis", "numpy", "deap", "pydantic")


@dataclass(frozen=True)
class ClusterOfRun:
    """One cluster of the vocabulary: `count` tokens, of which `examples` are texts; 0 and empty where not known."""

    id: str
    description: str
    examples: tuple[str, ...] = ()
    count: int = 0


@dataclass(frozen=True)
class ClustersOfArm:
    """The clusters of an arm in the order of their ids; `clustering` is the content hash."""

    arm: str
    clustering: str
    clusters: tuple[ClusterOfRun, ...]


class ClustersFile(TypedDict):
    """clusters.json."""

    arms: list[ClustersOfArm]


@dataclass(frozen=True)
class Versions:
    """What the orchestrator of a session was: `code` is the hash of the packages that do the work."""

    code: str
    python: str
    system: str
    packages: Mapping[str, str]


class VersionsFile(TypedDict):
    """versions.json, oldest first."""

    sessions: list[Versions]


def keep_clusters(output: OutputFolder, store: Store, run_id: str, arms: Sequence[Arm]) -> None:
    """Write what the clusters of the arms hold.  Descriptions of the user's own keep the examples of the clustering."""
    found = []
    for arm in arms:
        made = {str(one["id"]): one for one in store.clusterings.made_descriptions(arm.clustering)}
        clusters = tuple(
            _cluster(str(one["id"]), str(one["description"]), made.get(str(one["id"]), {}))
            for one in store.clusterings.descriptions(run_id, arm.clustering)
        )
        found.append(ClustersOfArm(arm.name, arm.clustering, clusters))
    output.write_state(CLUSTERS_FILE, {"arms": [asdict(one) for one in found]})


def _cluster(cluster: str, description: str, made: Mapping[str, Any]) -> ClusterOfRun:
    return ClusterOfRun(cluster, description, tuple(made.get("examples", ())), int(made.get("count", 0)))


def read_clusters(output: OutputFolder) -> list[ClustersOfArm]:
    """None before the vocabulary is clustered."""
    try:
        return read_state(output.path / CLUSTERS_FILE, ClustersFile)["arms"]
    except FileNotFoundError:
        return []


def keep_versions(output: OutputFolder) -> None:
    """Add this session's versions, unless the one before had the same."""
    known, here = read_versions(output), versions_here()
    if known[-1:] != [here]:
        output.write_state(VERSIONS_FILE, {"sessions": [asdict(one) for one in (*known, here)]})


def read_versions(output: OutputFolder) -> list[Versions]:
    """Oldest first; none for a run that has not started."""
    try:
        return read_state(output.path / VERSIONS_FILE, VersionsFile)["sessions"]
    except FileNotFoundError:
        return []


def versions_here() -> Versions:
    """Those of this process."""
    return Versions(code_version(), platform.python_version(), platform.platform(), dict(_installed()))


def _installed() -> list[tuple[str, str]]:
    found = []
    for name in PACKAGES:
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:  # of a source tree that is not installed, the code says which it is
            continue
    return found
