"""Three commands on one farm: `collect` finds tokens, `evolve --step cluster` clusters them, `evolve` steers them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from collection_folder import CollectionFolder
from run_folder import ROOT, RunFolder, finish, start

CLUSTERS = 4

pytestmark = pytest.mark.long


def cluster(run: RunFolder, data: Path) -> subprocess.CompletedProcess[str]:
    """Run `orchestrator evolve --step cluster` on collected tokens, with deltas for its clusters."""
    deltas = run.folder / "deltas.json"
    deltas.write_text(json.dumps({str(cluster): 0.0 for cluster in range(CLUSTERS + 2)}))
    chosen = {
        "FARM_DIR": run.farm,
        "CLUSTERS": CLUSTERS,
        "INITIAL_DELTAS_PATH": deltas,
        "CLUSTERS_FROM": data,
    }
    sets = [part for name, value in chosen.items() for part in ("--set", f"{name}={value}")]
    config = ["--config", str(ROOT / "configs" / "embedded.config")]
    return finish(start([sys.executable, "-m", "orchestrator", "evolve", "--step", "cluster", *config, *sets]))


def test_evolution_steers_the_clusters_of_the_collected_tokens(
    reference_collection: CollectionFolder, run_folder: RunFolder
) -> None:
    # given the output of a collection
    data = reference_collection.data
    ids = reference_collection.document()["token_selection"]["v_steer_token_ids"]
    # when the vocabulary is clustered from it
    done = cluster(run_folder, data)
    assert done.returncode == 0, done.stdout
    printed = done.stdout
    folder = Path(next(line for line in printed.splitlines() if line.startswith("in ")).removeprefix("in "))
    # then the manifest names the tokens, and the descriptions those of each cluster
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["discovered"] == sorted(ids)
    descriptions = json.loads((folder / "cluster_descriptions.json").read_text())
    assert [d["id"] for d in descriptions] == list(range(CLUSTERS + 2))
    assert all("discovered token" in d["description"] for d in descriptions[2:])
    assert np.load(folder / "kmeans_centres.npy").shape[0] == CLUSTERS
    # and a run on the same tokens uses this clustering, with a delta for each cluster
    done = run_folder.run(
        CLUSTERS=str(CLUSTERS),
        INITIAL_DELTAS_PATH=str(run_folder.folder / "deltas.json"),
        CLUSTERS_FROM=str(data),
        NGEN="1",
        VALIDATION="",
        TRAINING="0-1",
    )
    assert done.returncode == 0, done.stdout
    assert set(json.loads((run_folder.output / "deltas_best.json").read_text())) == {
        str(c) for c in range(CLUSTERS + 2)
    }
    assert folder.name in (run_folder.output / "run.log").read_text()
    processor = (run_folder.output / "processor_best.py").read_text()
    assert descriptions[2]["examples"][0] in processor
    assert run_folder.processes() == []
