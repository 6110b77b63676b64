"""`python -m tasks.gpu.clustering`: cluster one vocabulary, given as JSON on stdin (tasks/common/child.py).

Progress is {"stage", "done", "total"}; the result is {"folder"}.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from tasks.common.child import SendReport, work_as_child
from tasks.gpu.clustering.artifacts import ClusteringError, cannot_load
from tasks.records import Clusters, Sides

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def main() -> int:
    given = json.load(sys.stdin)
    return work_as_child(lambda report: _cluster(given, report), ClusteringError)


def _cluster(given: dict[str, Any], report: SendReport) -> dict[str, Any]:
    def progress(stage: str, done: int, total: int) -> None:
        report(stage=stage, done=done, total=total)

    clusters, sides = Clusters(**given["clusters"]), given["sides"]
    tokenizer = _tokenizer(given["tokenizer"])
    # Imported here: clusters by waste need neither scikit-learn nor sentence-transformers.
    if clusters.by == "waste":
        from tasks.gpu.clustering.waste_pipeline import cluster_answers

        clustering = cluster_answers(tokenizer, clusters, Sides(sides["verbose"], sides["short"]), progress)
    else:
        from tasks.gpu.clustering.pipeline import cluster_vocabulary

        clustering = cluster_vocabulary(tokenizer, clusters, given["embedder"], progress)
    return {"folder": str(clustering.folder)}


def _tokenizer(name: str) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
        return tokenizer
    except (OSError, ValueError) as error:
        raise cannot_load("tokenizer", name, error) from error


if __name__ == "__main__":
    raise SystemExit(main())
