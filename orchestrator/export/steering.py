"""What an export is made of: deltas, the cluster of each token, and a check of the model, read from a run's folder.

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
from tasks.files import FileTooLarge, read_limited
from tasks.gpu.processor_template import ModelCheck, check_clusters
from tasks.limits import STATE_BYTES, VOCABULARY_TOKENS
from tasks.validation import InvalidData, check_value, parse_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PROCESSOR = "processor_best.py"
TYPES = {"uint8": "u1", "uint16": "<u2"}


@dataclass(frozen=True, eq=False)
class ExportedSteering:
    """Deltas by cluster ("0", "1", ...), the cluster of each token [V], and the words that describe each cluster.

    `check` is of the model; its answers are those that these deltas have steered, so other deltas have none.
    """

    node: str  # "" for the run's winner
    deltas: Mapping[str, float]
    labels: NDArray[np.unsignedinteger[Any]]
    clustering: str
    descriptions: tuple[Mapping[str, Any], ...]
    check: ModelCheck

    @property
    def min_new_tokens(self) -> int:
        """What each request needs; 0 for nothing."""
        return self.check["min_new_tokens"]

    @property
    def biases(self) -> NDArray[np.float32]:
        """What is added to the logit of each token [V] float32."""
        import numpy as np

        by_cluster = np.asarray([self.deltas[str(cluster)] for cluster in range(len(self.deltas))], np.float32)
        return np.take(by_cluster, self.labels)


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
        text = read_limited(path, STATE_BYTES).decode()
        best = parse_processor(text)
    except FileNotFoundError:
        raise OutputError(f"{folder} has no {PROCESSOR} yet; the first generation of a run writes it") from None
    except (OSError, UnicodeDecodeError, ValueError, FileTooLarge) as error:
        raise OutputError(f"{path} cannot be read: {error}") from None
    best = dataclasses.replace(best, descriptions=tuple(map(dataclasses.asdict, results.clusters)))
    return best if not node else _of_node(best, results, node)


def _of_node(best: ExportedSteering, results: RunResults, node: str) -> ExportedSteering:
    folder = results.folder
    records = {record["node"]: record["deltas"] for _, record in read_individuals(results.output.individuals)}
    if node not in records:
        some = ", ".join(list(records)[:3])
        raise OutputError(f"{folder} has no individual {node!a}; individuals.jsonl has {len(records)}: {some} ...")
    deltas = {cluster: float(delta) for cluster, delta in records[node].items()}
    if set(deltas) != set(best.deltas):
        raise OutputError(f"{folder}: {node} has deltas of other clusters than {PROCESSOR}")
    if deltas == best.deltas:
        return dataclasses.replace(best, node=node)
    check = best.check.copy()
    check["answers"] = []
    # Of the settings: the winner's own is 0 where the winner steers nothing.
    check["min_new_tokens"] = results.steered_min_new_tokens if any(deltas.values()) else 0
    return dataclasses.replace(best, node=node, deltas=deltas, check=check)


def parse_processor(text: str) -> ExportedSteering:
    """What a generated file holds, without the descriptions, which are comments.

    Raises: ValueError with a sentence for any other text.
    """
    try:
        values = _constants(text)
        deltas, labels, clustering = values["DELTAS"], values["LABELS"], values["CLUSTERING"]
        kind = TYPES[values["LABEL_TYPE"]]
        packed = _unpacked(labels)
        check = parse_json(ModelCheck, _unpacked(values["CHECK"]))
        by_cluster = check_value(dict[str, float], deltas, "DELTAS")
    except (SyntaxError, KeyError, TypeError, AttributeError, RecursionError, InvalidData) as error:
        raise ValueError(f"it is no generated processor: {error}") from None
    import numpy as np

    array = np.frombuffer(packed, kind)
    check_clusters(by_cluster, array, clustering)
    return ExportedSteering("", by_cluster, array, clustering, (), check)


def _constants(text: str) -> dict[str, Any]:
    """The constants of a module, by name, without those that are no literals."""
    found: dict[str, Any] = {}
    for line in ast.parse(text).body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            try:
                found[line.targets[0].id] = ast.literal_eval(line.value)
            except ValueError:
                continue
    return found


def _unpacked(text: str) -> bytes:
    """Raises: ValueError when it is damaged, or larger than any vocabulary."""
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(base64.b64decode(text), max(2 * VOCABULARY_TOKENS, STATE_BYTES))
    except zlib.error as error:
        raise ValueError(f"its packed data are damaged: {error}") from None
    if not stream.eof:
        raise ValueError("its packed data are damaged, or too large")
    return content
