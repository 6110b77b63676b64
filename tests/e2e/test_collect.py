"""A collection on the embedded farm: its figures, and the clusters that an evolution makes of its tokens."""

from __future__ import annotations

import json
import re
import unicodedata
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kind_folders import CollectionFolder
from run_folder import ROOT, RunFolder, orchestrator

from tasks.openai.endpoint import RULES
from workers.embedded.models import embedded_model

pytestmark = pytest.mark.long
CLUSTERS = 4


def recompute(document: dict[str, Any], tokenizer: Any) -> list[tuple[int, float]]:
    """The selected ids and their differences, computed from the pairs in the file with exact fractions.

    A token's frequency on one side is the mean over samples of its count; the difference is verbose less compressed.
    Special, empty, punctuation and digit tokens are no candidates.
    """
    sides = []
    for name in ("verbose_token_ids", "compressed_token_ids"):
        counts: dict[int, Fraction] = {}
        for example in document["splits"]["train"]:
            for pair in example["retained_pairs"]:
                for token in pair[name]:
                    counts[token] = counts.get(token, Fraction(0)) + Fraction(1, example["num_retained"])
        total = sum(counts.values())
        sides.append({token: count / total for token, count in counts.items()})
    raw, comp = sides
    delta = {token: raw.get(token, 0) - comp.get(token, 0) for token in {*raw, *comp}}
    special = {*tokenizer.all_special_ids, tokenizer.eos_token_id}
    special |= {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}

    def is_candidate(token: int) -> bool:
        word = tokenizer.decode([token]).strip()
        is_punctuation = all(unicodedata.category(letter)[0] == "P" for letter in word)
        return token not in special and not is_punctuation and not re.fullmatch("[0-9]+", word)

    candidates = sorted(filter(is_candidate, delta), key=lambda token: (-delta[token], token))
    return [(token, float(delta[token])) for token in candidates[: document["metadata"]["k"]]]


def test_the_tokens_and_differences_are_those_of_an_independent_computation(
    reference_collection: CollectionFolder,
) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(embedded_model())
    document = reference_collection.document()
    metadata, selection = document["metadata"], document["token_selection"]
    assert metadata["reflector_model"] == metadata["evaluator_model"] == RULES, "settings name a model, rules answered"
    assert (reference_collection.output / "wasted_tokens.png").read_bytes().startswith(b"\x89PNG")
    assert reference_collection.repeated() == []
    wanted = recompute(document, tokenizer)
    kept = {example["num_retained"] for example in document["splits"]["train"]} - {0}
    assert len(kept) > 1, "all weights are equal: the test would not check them"
    assert selection["v_steer_token_ids"] == [token for token, _ in wanted]
    for chosen, (token, delta) in zip(selection["v_steer"], wanted, strict=True):
        assert chosen["token_str"] == tokenizer.decode([token])
        assert abs(chosen["delta"] - delta) <= 1e-12
        assert selection["delta_by_token_id"][str(token)] == chosen["delta"]
    for example in document["splits"]["train"]:
        for pair in example["retained_pairs"]:
            for side in ("verbose", "compressed"):
                ids = tokenizer.encode(pair[f"{side}_answer"], add_special_tokens=False)
                assert pair[f"{side}_token_ids"] == ids


def test_evolution_steers_the_clusters_of_the_collected_tokens(
    reference_collection: CollectionFolder, run_folder: RunFolder
) -> None:
    # Given the output of a collection, and deltas for the clusters of its tokens
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
    ids = reference_collection.document()["token_selection"]["v_steer_token_ids"]
    assert manifest["discovered"] == sorted(ids)
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
