"""What an export is made of: deltas, the cluster of each token, and the model, read from a run's folder.

The labels are in the run's own `processor_best.py`, which is read as data: its constants are parsed, and no line of it
is run.
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

from orchestrator.output import OutputError
from orchestrator.results import RunResults
from orchestrator.runs.individuals import read_individuals
from tasks.gpu.processor_template import ModelCheck

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PROCESSOR = "processor_best.py"
TYPES = {"uint8": "u1", "uint16": "<u2"}


@dataclass(frozen=True, eq=False)
class ExportedSteering:
    """Deltas by cluster ("0", "1", ...), the cluster of each token [V], and the words that describe each cluster.

    `ends` [V] says which tokens end a sentence where the delta of cluster 0 acts after those only, and is else None.
    """

    node: str  # "" for the run's winner
    deltas: Mapping[str, float]
    labels: NDArray[np.unsignedinteger[Any]]
    clustering: str
    descriptions: tuple[Mapping[str, Any], ...]
    check: ModelCheck
    ends: NDArray[np.uint8] | None = None

    @property
    def biases(self) -> NDArray[np.float64]:
        """What is added to the logit of each token [V]."""
        import numpy as np

        by_cluster = np.asarray([self.deltas[str(cluster)] for cluster in range(len(self.deltas))])
        return np.asarray(np.take(by_cluster, self.labels))


def read_steering(folder: Path, node: str = "") -> ExportedSteering:
    """The steering of a run's winner, or of one of its individuals.

    Raises: OutputError for a folder without a run, a run of another kind, one that has no processor yet, a node that
    it does not have, and for a damaged file.
    """
    results = RunResults.open(folder)
    if results.kind != "evolve":
        raise OutputError(f"{folder} holds a run of {results.kind!a}, which finds no deltas; export a run of 'evolve'")
    path = folder / PROCESSOR
    try:
        best = parse_processor(path.read_text("utf-8"))
    except FileNotFoundError:
        raise OutputError(f"{folder} has no {PROCESSOR} yet; the first generation of a run writes it") from None
    except (OSError, SyntaxError, ValueError, KeyError, TypeError, zlib.error) as error:
        raise OutputError(f"{path} cannot be read: {error}") from None
    best = dataclasses.replace(best, descriptions=tuple(map(dataclasses.asdict, results.clusters)))
    if not node:
        return best
    records = {record["node"]: record["deltas"] for record in read_individuals(results.output.individuals)}
    if node not in records:
        raise OutputError(f"{folder} has no individual {node!a}; individuals.jsonl has the names")
    deltas = {cluster: float(delta) for cluster, delta in records[node].items()}
    if set(deltas) != set(best.deltas):
        raise OutputError(f"{folder}: {node} has deltas of other clusters than {PROCESSOR}")
    return dataclasses.replace(best, node=node, deltas=deltas)


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
