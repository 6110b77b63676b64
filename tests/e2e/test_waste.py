"""Two commands on one farm: `cluster` makes clusters by waste from pairs of answers, and `evolve` steers them."""

from __future__ import annotations

import json
import sys

import pytest
from run_folder import ROOT, RunFolder, finish, start

VERBOSE = (
    "Based on the provided context, the revenue of the company was $30 million in 2018.\n\nTherefore, the answer to "
    "the question is that the revenue was $30 million.",
    "According to the information that is provided above, it is clear that yes, the company does pay a dividend.",
    "To answer this question, we need to look at the context. The plant in Dayton makes the largest number of pumps.",
)
SHORT = ("$30 million", "Yes.", "The plant in Dayton.")


@pytest.mark.long
def test_evolution_steers_clusters_by_waste_that_a_collection_s_answers_make(
    run_folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given pairs of a verbose and a compressed answer, as a collection writes them
    data, clusters_dir = run_folder.folder / "phase0_data.json", run_folder.folder / "clusters"
    monkeypatch.setenv("WHETSTONE_CLUSTERS", str(clusters_dir))
    pairs = [{"verbose_answer": v, "compressed_answer": s} for v, s in zip(VERBOSE, SHORT, strict=True)]
    data.write_text(json.dumps({"splits": {"train": [{"retained_pairs": pairs}]}}))
    waste = {"CLUSTERS_BY": "waste", "CLUSTERS": "4", "INITIAL_DELTAS_PATH": "zero"}
    # when the vocabulary is clustered from it
    chosen = {**waste, "FARM_DIR": run_folder.farm}
    sets = [part for name, value in chosen.items() for part in ("--set", f"{name}={value}")]
    config = ["--config", str(ROOT / "configs" / "embedded.config")]
    done = finish(start([sys.executable, "-m", "orchestrator", "cluster", *config, *sets, "--from", str(data)]))
    # then there are 4 + 4 clusters, of which the last is to stay at 0, and nothing was embedded
    assert done.returncode == 0, done.stdout
    [folder] = clusters_dir.iterdir()
    assert done.stdout.splitlines()[-1] == f"in {folder}"
    descriptions = json.loads((folder / "cluster_descriptions.json").read_text())
    assert [d["id"] for d in descriptions] == list(range(8))
    assert json.loads((folder / "cluster_figures.json").read_text())["pinned"] == 7
    assert not (folder / "embeddings.npy").exists()
    # and a search on the same answers uses this clustering, and leaves the last cluster at 0
    done = run_folder.run(
        **waste,
        CLUSTERS_FROM=str(data),
        OPTIMISER="cma",
        POPULATION_SIZE="3",
        NGEN="1",
        VALIDATION="",
        TRAINING="0-1",
    )
    assert done.returncode == 0, done.stdout
    best = json.loads((run_folder.output / "deltas_best.json").read_text())
    assert set(best) == {str(cluster) for cluster in range(8)}
    assert best["7"] == 0.0
    state = json.loads((run_folder.output / "evolution_state.json").read_text())
    assert len(state["state"]["centroid"]) == 7
    assert [path.name for path in clusters_dir.iterdir()] == [folder.name]
    assert descriptions[3]["examples"][0] in (run_folder.output / "processor_best.py").read_text()
    assert run_folder.processes() == []
