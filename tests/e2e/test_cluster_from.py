"""The pipeline on the real farm: `collect` finds tokens, `cluster --from` clusters them, `evolve` steers them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from collecting import Collecting
from workplace import ROOT, Workplace, cache_folder, finish, start

CLUSTERS = 4

pytestmark = pytest.mark.long


def cluster(place: Workplace, data: Path, clusters_dir: Path) -> subprocess.CompletedProcess[str]:
    """Run `orchestrator cluster --from`, with deltas for its clusters."""
    deltas = place.folder / "deltas.json"
    deltas.write_text(json.dumps({str(cluster): 0.0 for cluster in range(CLUSTERS + 2)}))
    chosen = {
        "FARM_DIR": place.farm,
        "CLUSTERS_DIR": clusters_dir,
        "KMEANS_CLUSTERS": CLUSTERS,
        "INITIAL_DELTAS_PATH": deltas,
    }
    sets = [part for name, value in chosen.items() for part in ("--set", f"{name}={value}")]
    config = ["--config", str(ROOT / "configs" / "embedded.config")]
    return finish(start([sys.executable, "-m", "orchestrator", "cluster", *config, *sets, "--from", str(data)]))


def test_what_was_collected_is_what_evolution_steers(collected: Collecting, workplace: Workplace) -> None:
    # given what a collection has written
    data = collected.data
    ids = collected.document()["token_selection"]["v_steer_token_ids"]
    # when the vocabulary is clustered from it
    done = cluster(workplace, data, cache_folder() / "clusters")
    assert done.returncode == 0, done.stdout
    said = done.stdout
    folder = Path(next(line for line in said.splitlines() if line.startswith("in ")).removeprefix("in "))
    # then the manifest names the tokens, and rules described the clusters, for there is no model to ask
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["discovered"] == sorted(ids)
    assert "described by rules" in said
    descriptions = json.loads((folder / "cluster_descriptions.json").read_text())
    assert [d["id"] for d in descriptions] == list(range(CLUSTERS + 2))
    assert all("discovered token" in d["description"] for d in descriptions[2:])
    assert np.load(folder / "kmeans_centres.npy").shape[0] == CLUSTERS
    # and a run on the same tokens takes this clustering and gives each of its clusters a delta
    done = workplace.run(
        KMEANS_CLUSTERS=str(CLUSTERS),
        INITIAL_DELTAS_PATH=str(workplace.folder / "deltas.json"),
        CLUSTERS_FROM=str(data),
        NGEN="1",
        VALIDATION_INDICES="",
        FINANCEBENCH_POOL_INDICES="0-1",
    )
    assert done.returncode == 0, done.stdout
    assert set(json.loads((workplace.output / "deltas_best.json").read_text())) == {str(c) for c in range(CLUSTERS + 2)}
    assert folder.name in (workplace.output / "run.log").read_text()
    processor = (workplace.output / "processor_best.py").read_text()
    assert descriptions[2]["examples"][0] in processor
    assert workplace.processes() == []


def test_tokens_of_another_vocabulary_are_told_and_not_clustered(workplace: Workplace) -> None:
    # given a token id that the embedded model does not have
    data = workplace.folder / "phase0_data.json"
    data.write_text(json.dumps({"token_selection": {"v_steer_token_ids": [5, 6, 7, 999_999]}}))
    done = cluster(workplace, data, workplace.folder / "clusters")
    # then it is one line
    assert done.returncode == 2, done.stdout
    assert "discovered token 999999 is not in this vocabulary" in done.stdout
    assert "Traceback" not in done.stdout
    assert workplace.processes() == []
