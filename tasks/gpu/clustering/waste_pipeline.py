"""From a tokenizer and answers to the cluster of every token, by waste.

decode -> eos (cluster 0), numbers (cluster 1) -> tokenize the answers -> line breaks, buckets, rest -> write

Nothing is embedded: it takes seconds, and little more memory than the tokenizer.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.gpu.clustering.artifacts import (
    DESCRIPTIONS,
    FIGURES,
    LABELS_WASTE,
    LABELS_WASTE_JOBLIB,
    Clustering,
    save_clustering,
)
from tasks.gpu.clustering.loading import load_clustering
from tasks.gpu.clustering.process import Progress, no_progress
from tasks.gpu.clustering.vocabulary import classify_tokens
from tasks.gpu.clustering.waste import EOS, cluster_by_waste
from tasks.records import ClusterFigures, Clusters, Sides

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

VERSION = 2
"""Of the algorithm: raised whenever equal inputs would give other labels, so that old clusterings are not reused."""

TokenIds = list[list[int]]
"""The token ids of each answer of one side."""


@dataclass(frozen=True)
class WasteInputs:
    """All that determines a clustering by waste."""

    vocabulary: Sequence[str]
    eos: frozenset[int]
    numbers: frozenset[int]
    verbose: TokenIds
    short: TokenIds
    buckets: int

    def hash(self) -> str:
        """32 hexadecimal digits.  The order of the answers is not part of it."""
        used = [sorted(_count(side).items()) for side in (self.verbose, self.short)]
        text = json.dumps([list(self.vocabulary), used, self.summary()], ensure_ascii=True, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def manifest(self) -> dict[str, Any]:
        return {"hash": self.hash(), **self.summary()}

    def summary(self) -> dict[str, Any]:
        """Everything but the vocabulary and the answers themselves."""
        return {
            "version": VERSION,
            "by": "waste",
            "tokens": len(self.vocabulary),
            "ends": sorted(self.eos),
            "numbers": sorted(self.numbers),
            "buckets": self.buckets,
            "answers": {"verbose": len(self.verbose), "short": len(self.short)},
            "answer_tokens": {"verbose": _count(self.verbose).total(), "short": _count(self.short).total()},
        }


def cluster_answers(
    tokenizer: PreTrainedTokenizerBase, clusters: Clusters, sides: Sides, on_progress: Progress = no_progress
) -> Clustering:
    """The clustering that the answers give; computed and written the first time, read from disk later."""
    total = len(tokenizer)
    on_progress("decode", 0, total)
    inputs = collect_waste_inputs(tokenizer, clusters, sides)
    on_progress("decode", total, total)
    folder = Path(clusters.folder) / inputs.hash()
    if not folder.is_dir():
        made = cluster_by_waste(
            inputs.vocabulary, inputs.eos, inputs.numbers, inputs.verbose, inputs.short, inputs.buckets
        )
        on_progress("cluster", total, total)
        figures = ClusterFigures(EOS, made.pinned, made.log_odds)
        files: dict[str, Any] = {
            LABELS_WASTE: made.labels,
            DESCRIPTIONS: made.descriptions,
            FIGURES: dataclasses.asdict(figures),
            LABELS_WASTE_JOBLIB: made.labels,
        }
        folder = save_clustering(Path(clusters.folder), inputs, files)
    on_progress("write", total, total)
    return load_clustering(folder)


def collect_waste_inputs(tokenizer: PreTrainedTokenizerBase, clusters: Clusters, sides: Sides) -> WasteInputs:
    """All that determines the clustering; its hash names the folder."""
    vocabulary, eos, numbers = classify_tokens(tokenizer)
    verbose, short = encode_texts(tokenizer, sides.verbose), encode_texts(tokenizer, sides.short)
    return WasteInputs(vocabulary, eos, numbers, verbose, short, clusters.buckets)


def encode_texts(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> TokenIds:
    """The token ids of each text as text: a marker that is written out in it is not the special token."""
    if not texts:
        return []
    found = tokenizer(list(texts), add_special_tokens=False, split_special_tokens=True, truncation=False)
    return [list(ids) for ids in found["input_ids"]]


def _count(side: Iterable[Iterable[int]]) -> Counter[int]:
    return Counter(token for answer in side for token in answer)
