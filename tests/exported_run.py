"""A run's folder with what an export reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from measured_book import CLUSTERING, ONE_SENTENCE, book

from orchestrator.export.targets import TARGETS, read_steering
from orchestrator.runs.folder import OutputFolder
from tasks.gpu.cluster import pack_labels
from tasks.gpu.processor import SGLANG, ModelCheck, render_file

VOCABULARY = 49152
HASH = CLUSTERING
DELTAS = {"0": 1.5, "1": -0.75, "2": 0.0, "3": -2.75, "4": 0.5}
WORDS = [
    {"id": i, "description": f"Tokens of kind {i}, described in more words than fit a line " * 3} for i in range(5)
]
CLUSTERS = [{"id": str(w["id"]), "description": w["description"], "examples": (), "count": 9} for w in WORDS]
NODE, BEST = "g0_child1_pre", "g0_pop0_pre"
OTHER = {"0": 0.25, "1": 1.0, "2": -1.0, "3": 0.0, "4": -0.5}
CHECK = ModelCheck(name="a model", config="c0", tokenizer="70")
POINT, DIGIT, STOP, WORD = 10, 11, 12, 13  # tokens: ".", one that ends with a digit, one that ends a sentence, another
ENDS = {POINT: 4, DIGIT: 2, STOP: 1}


def labels_of(size: int = VOCABULARY) -> np.ndarray:
    """Clusters at random; most tokens are in cluster 2, and only token 2 ends a turn."""
    labels = np.random.default_rng(5).choice([1, 2, 2, 2, 3, 4], size).astype(np.uint8)
    labels[2] = 0
    return labels


def write_run(
    folder: Path,
    check: ModelCheck = CHECK,
    kind: str = "evolve",
    size: int = VOCABULARY,
    ends: Mapping[int, int] | None = None,
) -> Path:
    """`ends`: the classes of the tokens that have any, where the end of a turn is raised after sentences only."""
    output, clusters, classes = OutputFolder(folder), folder / "clusters", None
    clusters.mkdir(parents=True, exist_ok=True)
    output.write_json("run.json", {"id": "exported-1", "kind": kind, "folder": str(folder.resolve())})
    output.write("config", f"CONFIG_WHOLE={'n' if ends is None else 'y'}\n")
    if ends is not None:
        classes = np.zeros(size, np.uint8)
        classes[list(ends)] = list(ends.values())
        (clusters / f"{HASH}.ends").write_bytes(pack_labels(classes))
    (clusters / f"{HASH}.labels").write_bytes(pack_labels(labels_of(size)))
    output.write_json("model.json", asdict(check))
    output.write("processor_best.py", render_file(SGLANG, DELTAS, labels_of(size), HASH, WORDS, check, classes))
    output.write_json("clusters.json", {"arms": [{"arm": ONE_SENTENCE, "clustering": HASH, "clusters": CLUSTERS}]})
    book().write(output)
    line: dict[str, Any] = {"generation": 0, "mean_tokens": 9.0, "correctness": 0.5, "scratchpad": ""}
    lines = (
        {**line, "node": node, "arm": ONE_SENTENCE, "fitness": fitness, "deltas": deltas}
        for node, fitness, deltas in ((NODE, 0.4, OTHER), (BEST, 0.5, DELTAS))
    )
    output.write("individuals.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    scored = {"fitness": 0.5, "shortness": 0.5, "correctness": 0.5, "mean_tokens": 9.0}
    generation = {
        "generation": 0, "arm": ONE_SENTENCE, "best": 0.5, "mean": 0.45, "best_ever": 0.5, "offspring": [],
        "population": [{"node": node, **scored} for node in (NODE, BEST)],
        "evaluations": {"computed": 2, "cached": 0, "carried": 0}, "seconds": {"wall": 1.0},
        "tokens": {"target": 1, "prompt": 1, "cached": 0, "completion": 1}, "calls": 0, "cost_usd": 0.0,
    }  # fmt: skip
    output.write("history.jsonl", json.dumps(generation) + "\n")
    return folder


def biases_of(deltas: dict[str, float], size: int = VOCABULARY) -> np.ndarray:
    """What is added to each logit, by plain arithmetic."""
    return np.array([deltas[str(label)] for label in labels_of(size).tolist()], dtype=np.float32)


def rendered(target: str, run: Path, node: str = "") -> str:
    """The text of a run's file for an engine."""
    return TARGETS[target].render(read_steering(run, node=node), Path(TARGETS[target].file_name).stem)
