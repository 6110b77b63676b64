"""What an export is made of, from a run's folder: a system, the cluster of each token, and the model.

Labels and sentence ends of each clustering are in `clusters/`, the model is in `model.json`.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.evolve.records import read_individuals
from orchestrator.evolve.resume import MODEL, read_model
from orchestrator.evolve.systems import System
from orchestrator.results import RunResults
from orchestrator.runs.folder import OutputError
from tasks.gpu.processor import ModelCheck

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class ExportedSteering:
    """A system with the cluster of each token [V], and the words that describe each cluster; none without deltas.

    `ends` [V] says which tokens end a sentence where the delta of cluster 0 acts after those only, and is else None.
    weights: those of the run's last server, "" where not known.  is_shown: the run has shown that it loses less than
    the margin of correct answers.
    """

    system: System
    check: ModelCheck
    labels: NDArray[np.unsignedinteger[Any]]
    ends: NDArray[np.uint8] | None = None
    descriptions: tuple[Mapping[str, Any], ...] = ()
    weights: str = ""
    is_shown: bool = False

    @property
    def deltas(self) -> dict[str, float]:
        """By cluster: "0", "1", ..."""
        return {str(cluster): delta for cluster, delta in enumerate(self.system.deltas)}

    @property
    def biases(self) -> NDArray[np.float64]:
        """What is added to the logit of each token [V]."""
        import numpy as np

        return np.asarray(np.take(np.asarray(self.system.deltas), self.labels))


def read_steering(folder: Path, system: str = "", node: str = "") -> ExportedSteering:
    """One of a run's systems, or an individual of its search; without a name the winner, and before there is one the
    best individual so far.

    Raises: OutputError for a folder without a run, a run of another kind, a name that it does not have, and for a
    damaged file.
    """
    import numpy as np

    results = RunResults.open(folder)
    if results.kind != "evolve":
        raise OutputError(f"{folder} holds a run of {results.kind!a}, which finds no system; export a run of 'evolve'")
    chosen = _chosen(results, system, node)
    try:
        check = read_model(results.output)
    except FileNotFoundError:
        raise OutputError(f"{folder} has no {MODEL}: its run has asked no server yet") from None
    weights = str(results.servers[-1].get("weights", "")) if results.servers else ""
    steering = ExportedSteering(
        chosen, check, np.zeros(0, np.uint8), weights=weights, is_shown=chosen.name in results.book.passed
    )
    if not chosen.deltas:
        return steering
    file = folder / "clusters" / f"{chosen.clustering}.labels"
    clusters = next((arm.clusters for arm in results.arms if arm.clustering == chosen.clustering), ())
    return dataclasses.replace(
        steering,
        labels=_read_labels(file),
        ends=None if results.settings.get("WHOLE") == "n" else _read_labels(file.with_suffix(".ends")),
        descriptions=tuple(map(dataclasses.asdict, clusters)),
    )


def _chosen(results: RunResults, system: str, node: str) -> System:
    name = system or results.book.winner
    if name and not node:
        for one in results.book.systems:
            if one.name == name:
                return one
        raise OutputError(f"{results.folder} has no system {name!a}; systems.json has the names")
    found = [one for one in read_individuals(results.output.individuals) if node in ("", one.node)]
    if not found:
        problem = f"no individual {node!a}; individuals.jsonl has the names" if node else "no individual yet"
        raise OutputError(f"{results.folder} has {problem}")
    best = max(found, key=lambda one: one.fitness)
    return best.system(next(one for one in results.book.arms if one.name == best.arm))


def _read_labels(path: Path) -> NDArray[Any]:
    from tasks.gpu.cluster import unpack_labels

    try:
        return unpack_labels(path.read_bytes())
    except (OSError, ValueError, zlib.error) as error:
        raise OutputError(f"{path} cannot be read: {error}") from None
