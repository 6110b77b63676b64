"""`python -m tasks.gpu.clustering`: cluster one vocabulary and report in JSON lines on stdout.

Progress is {"stage", "done", "total"}; the last line is {"hash", "folder"}.  On an error: exit 1, one line on stderr.
With `--by waste` the answers are read from stdin: {"verbose": [text, ...], "short": [text, ...]}.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
from types import FrameType
from typing import IO, TYPE_CHECKING, get_args

from tasks.gpu.clustering.artifacts import ClusteringError, cannot_load
from tasks.models import ClusteredBy, Clusters, Sides
from tasks.validation import InvalidData, parse_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_QUIET = {"TQDM_DISABLE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error"}


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, _exit)
    os.environ.update(_QUIET)
    logging.disable(logging.WARNING)  # stderr is for one line of error
    # Libraries may print to stdout, which is for the JSON lines alone.
    lines, sys.stdout = sys.stdout, sys.stderr
    try:
        return _cluster(options, lines)
    except ClusteringError as error:
        print(error, file=sys.stderr)
        return 1


def _cluster(options: argparse.Namespace, lines: IO[str]) -> int:
    def report(**values: object) -> None:
        print(json.dumps(values), file=lines, flush=True)

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
    report(hash=clustering.hash, folder=str(clustering.folder))
    return 0


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


def _exit(number: int, frame: FrameType | None) -> None:
    """On SIGTERM exit in order, so that an unfinished folder is removed."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    raise SystemExit(main())
