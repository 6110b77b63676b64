"""`python -m tasks.gpu.clustering`: cluster one vocabulary and report in JSON lines on stdout (tasks/gpu/compute).

Progress is {"stage", "done", "total"}; the result is {"hash", "folder"}.
With `--by waste` the answers are read from stdin: {"verbose": [text, ...], "short": [text, ...]}.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, get_args

from tasks.gpu.clustering.artifacts import ClusteringError, cannot_load
from tasks.gpu.compute.child import SendReport, work_as_child
from tasks.models import ClusteredBy, Clusters, Sides
from tasks.validation import InvalidData, parse_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def main() -> int:
    options = _options()
    return work_as_child(lambda report: _cluster(options, report), ClusteringError)


def _cluster(options: argparse.Namespace, report: SendReport) -> dict[str, Any]:
    clusters = Clusters(
        folder=options.folder,
        embedder=options.embedder,
        components=options.components,
        count=options.count,
        seed=options.seed,
        batch_size=options.batch_size,
        device=options.device,
        discovered=tuple(options.discovered),
        by=options.by,
        buckets=options.buckets,
    )

    def progress(stage: str, done: int, total: int) -> None:
        report(stage=stage, done=done, total=total)

    tokenizer = _tokenizer(options.tokenizer)
    # Imported here: clusters by waste need neither scikit-learn nor sentence-transformers.
    if clusters.by == "waste":
        from tasks.gpu.clustering.waste_pipeline import cluster_answers

        clustering = cluster_answers(tokenizer, clusters, _sides(), progress)
    else:
        from tasks.gpu.clustering.pipeline import cluster_vocabulary

        clustering = cluster_vocabulary(tokenizer, clusters, options.embedder, progress)
    return {"hash": clustering.hash, "folder": str(clustering.folder)}


def _tokenizer(name: str) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
        return tokenizer
    except (OSError, ValueError) as error:
        raise cannot_load("tokenizer", name, error) from error


def _sides() -> Sides:
    try:
        return parse_json(Sides, sys.stdin.buffer.read())
    except InvalidData as error:
        raise ClusteringError(f"clusters by waste need answers on stdin: {error}") from None


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tasks.gpu.clustering", description="Cluster a vocabulary.")
    parser.add_argument("--tokenizer", required=True, help="a folder or a Hugging Face id")
    parser.add_argument("--by", choices=get_args(ClusteredBy), default="meaning")
    parser.add_argument("--buckets", type=int, default=10, help="of clusters by waste")
    parser.add_argument("--embedder", default="", help="a sentence-transformers model: a folder or an id")
    parser.add_argument("--folder", required=True, help="the clustering is written to <folder>/<hash>")
    parser.add_argument("--components", type=int, default=50, help="of the PCA")
    parser.add_argument("--count", type=int, default=10, help="of k-means; clusters 0 and 1 come on top")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=256, help="texts in a batch, at most")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument(
        "--discovered", type=int, nargs="*", default=[], metavar="ID",
        help="fit on these tokens alone; every other token goes to the nearest centre",
    )  # fmt: skip
    options = parser.parse_args()
    if options.by == "meaning" and not options.embedder:
        parser.error("clusters by meaning need --embedder")
    return options


if __name__ == "__main__":
    raise SystemExit(main())
