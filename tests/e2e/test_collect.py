"""A collection on the embedded farm, and the clusters that an evolution makes of its tokens."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from run_folder import ROOT, CollectionFolder, RunFolder, orchestrator
from transformers import AutoTokenizer

from tasks.openai.endpoint import RULES
from workers.embedded.models import embedded_model

pytestmark = pytest.mark.long
CLUSTERS = 4


def test_evolution_steers_the_clusters_of_the_collected_tokens(
    reference_collection: CollectionFolder, run_folder: RunFolder
) -> None:
    # Given a collection, whose tokens are those of its answers
    document = reference_collection.document()
    metadata, tokenizer = document["metadata"], AutoTokenizer.from_pretrained(embedded_model())
    assert metadata["reflector_model"] == metadata["evaluator_model"] == RULES, "settings name a model, rules answered"
    assert (reference_collection.output / "wasted_tokens.png").read_bytes().startswith(b"\x89PNG")
    assert reference_collection.repeated() == []
    pairs = [pair for example in document["splits"]["train"] for pair in example["retained_pairs"]]
    for pair, side in itertools.product(pairs, ("verbose", "compressed")):
        assert pair[f"{side}_token_ids"] == tokenizer.encode(pair[f"{side}_answer"], add_special_tokens=False)
    # And deltas for the clusters of its tokens
    deltas = run_folder.folder / "deltas.json"
    deltas.write_text(json.dumps({str(cluster): 0.0 for cluster in range(CLUSTERS + 2)}))
    chosen = {
        "CLUSTERS": str(CLUSTERS), "INITIAL_DELTAS_PATH": str(deltas), "CLUSTERS_FROM": str(reference_collection.data),
    }  # fmt: skip
    sets = [f"--set={name}={value}" for name, value in {"FARM_DIR": run_folder.farm, **chosen}.items()]
    # When the vocabulary is clustered from it
    done = orchestrator("evolve", "--step", "cluster", "--config", str(ROOT / "configs" / "embedded.config"), *sets)
    assert done.returncode == 0, done.stdout
    folder = Path(next(line for line in done.stdout.splitlines() if line.startswith("in ")).removeprefix("in "))
    # Then the manifest names the tokens, and the descriptions those of each cluster
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["discovered"] == sorted(document["token_selection"]["v_steer_token_ids"])
    descriptions = json.loads((folder / "cluster_descriptions.json").read_text())
    assert [d["id"] for d in descriptions] == list(range(CLUSTERS + 2))
    assert all("discovered token" in d["description"] for d in descriptions[2:])
    assert np.load(folder / "kmeans_centres.npy").shape[0] == CLUSTERS
    # And a run on the same tokens uses this clustering, with a delta for each cluster
    done = run_folder.run(**chosen, NGEN="1", VALIDATION="", TRAINING="0-1")
    assert done.returncode == 0, done.stdout
    best = json.loads((run_folder.output / "deltas_best.json").read_text())
    assert set(best) == {str(cluster) for cluster in range(CLUSTERS + 2)}
    assert folder.name in (run_folder.output / "run.log").read_text()
    assert descriptions[2]["examples"][0] in (run_folder.output / "processor_best.py").read_text()
    assert run_folder.processes() == []
