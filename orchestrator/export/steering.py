"""What an export is made of: deltas, the cluster of each token, the system prompt and the model, from a run's folder.

The cluster of each token is in `clusters/<hash>.labels` for each clustering of the run.  The model is in the run's own
`processor_best.py`, which is read as data: its constants are parsed, and no line of it is run.
"""

from __future__ import annotations

import ast
import base64
import dataclasses
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.evolve.systems import Book, System
from orchestrator.output import OutputError
from orchestrator.results import RunResults
from orchestrator.runs.individuals import read_individuals
from tasks.gpu.processor_template import ModelCheck

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PROCESSOR = "processor_best.py"
LABELS = "clusters/{clustering}.labels"
TYPES = {"uint8": "u1", "uint16": "<u2"}


@dataclass(frozen=True, eq=False)
class ExportedSteering:
    """Deltas by cluster ("0", "1", ...), the cluster of each token [V], and the words that describe each cluster.

    `ends` [V] says which tokens end a sentence where the delta of cluster 0 acts after those only, and is else None.
    is_shown: the run has shown that it loses less than the margin of correct answers.
    """

    name: str
    deltas: Mapping[str, float]
    labels: NDArray[np.unsignedinteger[Any]]
    clustering: str
    descriptions: tuple[Mapping[str, Any], ...]
    check: ModelCheck
    ends: NDArray[np.uint8] | None = None
    system_prompt: str = ""
    max_tokens: int = 0
    is_shown: bool = False

    @property
    def biases(self) -> NDArray[np.float64]:
        """What is added to the logit of each token [V]."""
        import numpy as np

        by_cluster = np.asarray([self.deltas[str(cluster)] for cluster in range(len(self.deltas))])
        return np.asarray(np.take(by_cluster, self.labels))


def read_steering(folder: Path, system: str = "", node: str = "") -> ExportedSteering:
    """The steering of one of a run's systems, or of an individual of its search; without a name that of the winner, and
    before there is one that of the best individual so far.

    Raises: OutputError for a folder without a run, a run of another kind, one that has no processor yet, a name that it
    does not have, a system without deltas, and for a damaged file.
    """
    results = RunResults.open(folder)
    if results.kind != "evolve":
        raise OutputError(f"{folder} holds a run of {results.kind!a}, which finds no deltas; export a run of 'evolve'")
    best, book = _read_processor(folder), results.book
    if node:
        return _of_system(results, book, _individual(results, book, node), best)
    name = system or book.winner
    if not name:
        clusters = next((arm.clusters for arm in results.arms if arm.clustering == best.clustering), ())
        return dataclasses.replace(best, descriptions=tuple(map(dataclasses.asdict, clusters)))
    chosen = next((one for one in book.systems if one.name == name), None)
    if chosen is None:
        raise OutputError(f"{folder} has no system {name!a}; systems.json has the names")
    if not chosen.deltas:
        raise OutputError(f"{folder}: {name!a} is the model without deltas; --system names another one (front.json)")
    return _of_system(results, book, chosen, best)


def _individual(results: RunResults, book: Book, node: str) -> System:
    """An individual of the search as a system of its arm."""
    found = [record for record in read_individuals(results.output.individuals) if record["node"] == node]
    if not found:
        raise OutputError(f"{results.folder} has no individual {node!a}; individuals.jsonl has the names")
    arm = next(one for one in book.arms if one.name == found[-1]["arm"])
    given = found[-1]["deltas"]
    deltas = tuple(float(given[str(cluster)]) for cluster in range(len(given)))
    return System(node, "evolved", arm.system_prompt, arm.name, deltas, arm.clustering)


def _of_system(results: RunResults, book: Book, chosen: System, best: ExportedSteering) -> ExportedSteering:
    clusters = next((arm.clusters for arm in results.arms if arm.clustering == chosen.clustering), ())
    return dataclasses.replace(
        best,
        name=chosen.name,
        deltas={str(cluster): delta for cluster, delta in enumerate(chosen.deltas)},
        labels=_read_labels(results.folder, chosen.clustering),
        clustering=chosen.clustering,
        descriptions=tuple(map(dataclasses.asdict, clusters)),
        system_prompt=chosen.system_prompt,
        max_tokens=chosen.max_tokens,
        is_shown=chosen.name in book.passed,
    )


def _read_labels(folder: Path, clustering: str) -> NDArray[np.unsignedinteger[Any]]:
    from tasks.gpu.cluster import unpack_labels

    path = folder / LABELS.format(clustering=clustering)
    try:
        return unpack_labels(path.read_bytes())  # type: ignore[return-value]  # labels are unsigned
    except (OSError, ValueError, zlib.error) as error:
        raise OutputError(f"{path} cannot be read: {error}") from None


def read_check(folder: Path) -> ModelCheck:
    """The model that a run's deltas were found with."""
    return _read_processor(folder).check


def _read_processor(folder: Path) -> ExportedSteering:
    path = folder / PROCESSOR
    try:
        return parse_processor(path.read_text("utf-8"))
    except FileNotFoundError:
        raise OutputError(f"{folder} has no {PROCESSOR} yet; the first generation of a run writes it") from None
    except (OSError, SyntaxError, ValueError, KeyError, TypeError, zlib.error) as error:
        raise OutputError(f"{path} cannot be read: {error}") from None


def parse_processor(text: str) -> ExportedSteering:
    """What a generated file holds, without the descriptions, which are comments."""
    import numpy as np

    values: dict[str, Any] = {}
    for line in ast.parse(text).body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            values[line.targets[0].id] = ast.literal_eval(line.value)

    def unpack(name: str, kind: str) -> NDArray[Any]:
        return np.frombuffer(zlib.decompress(base64.b64decode(values[name])), kind)

    labels = unpack("LABELS", TYPES[values["LABEL_TYPE"]])
    ends = unpack("SENTENCE_ENDS", "u1") if values["SENTENCE_ENDS"] else None
    return ExportedSteering("", values["DELTAS"], labels, values["CLUSTERING"], (), ModelCheck(**values["MODEL"]), ends)
