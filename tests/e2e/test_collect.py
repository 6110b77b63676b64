"""A collection on the embedded farm: its output, how it continues, and the clusters that an evolution makes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest
from collection_folder import CollectionFolder, recompute
from http_thread import http_server
from run_folder import ROOT, RunFolder, finish, orchestrator, start, wait_until

from tasks.openai.endpoint import RULES
from tasks.store.address import queues_url, store_url
from tasks.store.client import connect
from workers.embedded.models import embedded_model

pytestmark = pytest.mark.long


def test_it_names_who_answered_draws_its_picture_and_leaves_nothing_running(
    reference_collection: CollectionFolder,
) -> None:
    metadata = reference_collection.document()["metadata"]
    assert metadata["reflector_model"] == metadata["evaluator_model"] == RULES, "settings name a model, rules answered"
    assert (reference_collection.output / "wasted_tokens.png").read_bytes().startswith(b"\x89PNG")
    assert reference_collection.processes() == []
    assert reference_collection.repeated() == []


def test_the_tokens_and_differences_are_those_of_an_independent_computation(
    reference_collection: CollectionFolder,
) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(embedded_model())
    document = reference_collection.document()
    selection = document["token_selection"]
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


def test_a_reflector_that_refuses_parks_the_collection_and_retry_with_a_working_one_ends_it(
    reference_collection: CollectionFolder, collection: CollectionFolder
) -> None:
    with http_server(Refusing) as address:
        broken = {"reflector": {"api_base": f"{address}/v1"}}
        collection.configure(broken, {"phase0": {"correctness": {"evaluator_api_base": f"{address}/v1"}}})
        process = start(["env", "OPENAI_API_KEY=some-key", *collection.command()])
        failed = finish(process)
    assert failed.returncode == 3, failed.stdout
    assert "parked: compress of sample_id_" in failed.stdout and "HTTP 404" in failed.stdout
    assert not collection.data.exists()
    failures = json.loads(orchestrator("failed", str(collection.output), "--json").stdout)
    assert {failure["stage"] for failure in failures} == {"compress"}
    refused = orchestrator("retry", str(collection.output), "--set", "seed=7")
    assert refused.returncode == 1 and "--set seed: " in refused.stdout
    working = [f"{name}=embedded" for name in ("reflector.api_base", "phase0.correctness.evaluator_api_base")]
    sets = [part for change in working for part in ("--set", change)]
    done = orchestrator("retry", str(collection.output), str(failures[0]["node"]), *sets)
    assert done.returncode == 0, done.stdout
    assert collection.result() == reference_collection.result()
    assert collection.repeated() == []


def test_a_collection_is_cancelled_deleted_and_started_again(
    reference_collection: CollectionFolder, collection: CollectionFolder
) -> None:
    # Given a collection on a farm that stays up
    where = ("--config", "configs/embedded.config", "--set", f"FARM_DIR={collection.farm}")
    assert orchestrator("farm", "up", *where).returncode == 0
    try:
        farm = str(json.loads(orchestrator("farm", "status", "--json", *where).stdout)["redis_url"])
        process = collection.start()
        wait_until(lambda: collection.answers() >= 2 or process.poll() is not None, "answers")
        # When it is cancelled, then it parks and its command ends
        cancelled = orchestrator("cancel", str(collection.output))
        assert cancelled.returncode == 0, cancelled.stdout
        assert finish(process).returncode == 3
        # When it is deleted, then no key of it is left in the farm
        run_id = json.loads((collection.output / "run.json").read_text())["id"]
        deleted = orchestrator("runs", "--delete", str(collection.output))
        assert deleted.returncode == 0, deleted.stdout
        for client in (connect(store_url(farm)), connect(queues_url(farm))):
            assert list(client.scan_iter(match=f"*{run_id}*", count=1000)) == []
        # When it is retried, then it ends; a setting that alters no result may change
        done = orchestrator("retry", str(collection.output), "--set", "phase0.judge_concurrency=2")
        assert done.returncode == 0, done.stdout
    finally:
        assert orchestrator("farm", "down", *where).returncode == 0
    assert collection.result() == reference_collection.result()
    assert collection.processes() == []


def test_a_budget_parks_a_collection_and_a_larger_one_lets_it_go_on(
    reference_collection: CollectionFolder, collection: CollectionFolder
) -> None:
    # Given a collection whose calls cost money, and a budget for some of them
    prices = ["--price-prompt", "1000", "--price-cached", "1000", "--price-completion", "0"]
    refused = collection.run("--budget", "1")
    assert (refused.returncode, "--price-prompt" in refused.stdout) == (1, True)
    parked = collection.run(*prices, "--budget", "1")
    # Then it parks before they cost more
    assert parked.returncode == 3, parked.stdout
    status = json.loads(orchestrator("status", str(collection.output), "--json").stdout)
    assert 0 < status["cost_usd"] + status["unconfirmed_usd"] <= status["budget_usd"] == 1
    # When the budget is larger, then it ends, and no call was paid twice
    done = orchestrator("retry", str(collection.output), "--set", "farm.budget_usd=1000")
    assert done.returncode == 0, done.stdout
    assert collection.result() == reference_collection.result()
    assert collection.repeated() == []


class Refusing(BaseHTTPRequestHandler):
    """An endpoint that answers every request with HTTP 404."""

    def do_POST(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()


CLUSTERS = 4


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
