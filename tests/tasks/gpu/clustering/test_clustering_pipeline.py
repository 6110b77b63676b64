"""The vocabulary of the model that the embedded farm steers, whole: 49,152 tokens."""

from __future__ import annotations

import numpy as np
from transformers import AutoTokenizer

from tasks.gpu.cluster import run_clustering
from tasks.gpu.clustering.artifacts import load_clustering
from tasks.records import Clusters
from workers.embedded.models import cache_folder, embedded_embedder, embedded_model


def test_the_embedded_models_vocabulary() -> None:
    # given SmolLM2's tokenizer; a clustering that an earlier run left in the cache is as good as a new one
    clusters = Clusters(
        str(cache_folder() / "clusters"), "embedded", components=50, count=10, seed=42, batch_size=512, device="cpu"
    )
    # when its vocabulary is clustered
    found = load_clustering(run_clustering(embedded_model(), clusters, embedded_embedder()))
    # then every token has a cluster, and the two fixed ones hold what they must
    tokenizer = AutoTokenizer.from_pretrained(embedded_model())
    assert found.labels.shape == (len(tokenizer),) == (49152,)
    assert set(found.labels.tolist()) == set(range(12))
    assert inside(tokenizer, found.labels, 0) == {"<|im_end|>"}
    symbols = "$ % * + - / = £ ¢ € × ± −".split()  # noqa: SIM905  (a list of symbols in quotes is no easier to read)
    readable = {tokenizer.decode([i]).strip() for i in np.flatnonzero(found.labels == 1)}
    assert readable == {*"0123456789", *symbols}
    # and no cluster is so large that steering it would be steering everything
    assert [d["count"] for d in found.descriptions] == np.bincount(found.labels).tolist()
    assert max(d["count"] for d in found.descriptions) < 0.4 * len(tokenizer)


def inside(tokenizer, labels: np.ndarray, cluster: int) -> set[str]:
    return set(tokenizer.convert_ids_to_tokens(np.flatnonzero(labels == cluster).tolist()))
