"""A collection on the embedded farm: its output, and how it continues."""

from __future__ import annotations

import random
import shutil
from http.server import BaseHTTPRequestHandler

import pytest
from collection_folder import CollectionFolder, recompute
from http_thread import http_server
from PIL import Image
from run_folder import ROOT, finish, start

from orchestrator.collection.document import validate
from tasks.dataset import load_examples
from tasks.openai.provider import RULES
from workers.embedded.models import embedded_model

pytestmark = pytest.mark.long


def test_the_output_fits_its_schema_and_leaves_nothing_running(reference_collection: CollectionFolder) -> None:
    validate(reference_collection.document())
    metadata = reference_collection.document()["metadata"]
    assert metadata["reflector_model"] == RULES, "the settings name a language model, and rules answered"
    assert metadata["evaluator_model"] == RULES
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


def test_the_splits_follow_from_the_seed_and_every_sample_is_retained_or_discarded(
    reference_collection: CollectionFolder,
) -> None:
    document = reference_collection.document()
    ids = sorted(e.id for e in load_examples(ROOT / "configs" / "data" / "sample.jsonl"))
    random.Random(42).shuffle(ids)
    assert [e["example_id"] for part in ("train", "val", "test") for e in document["splits"][part]] == ids
    assert document["metadata"]["split_counts"] == {"train": 4, "val": 4, "test": 40}
    kept = [example["num_retained"] for example in document["splits"]["train"]]
    for example in document["splits"]["train"]:
        assert len(example["retained_pairs"]) == example["num_retained"]
        assert len(example["retained_pairs"]) + len(example["discarded_pairs"]) == 3
        assert example["sample_weight"] == (1 / example["num_retained"] if example["num_retained"] else None)
    assert document["metadata"]["total_retained_pairs"] == sum(kept)
    assert document["metadata"]["train_retained_examples"] == sum(m > 0 for m in kept)


def test_the_most_wasted_tokens_are_plotted(reference_collection: CollectionFolder) -> None:
    with Image.open(reference_collection.output / "wasted_tokens.png") as picture:
        picture.load()
        assert picture.format == "PNG"


def test_the_settings_the_split_the_counts_and_the_largest_differences_are_logged(
    reference_collection: CollectionFolder,
) -> None:
    printed = (reference_collection.folder / "printed.txt").read_text()
    assert '"prompt_template"' in printed
    assert "split: train 4, val 4, test 40" in printed
    for example in reference_collection.document()["splits"]["train"]:
        counts = f"{example['example_id']}: 3 verbose answers, {example['num_retained']} retained"
        assert counts in printed
    assert "of 4 examples retained" in printed
    assert "largest differences" in printed
    assert f"wrote {reference_collection.data}, {reference_collection.data.stat().st_size:,} bytes" in printed
    assert (reference_collection.output / "collect.log").read_text() in printed


def test_with_the_checkpoints_alone_no_call_is_made_again(
    reference_collection: CollectionFolder, collection: CollectionFolder
) -> None:
    collection.output.mkdir()
    for name in ("phase0_verbose.jsonl", "phase0_pairs.jsonl"):
        shutil.copy(reference_collection.output / name, collection.output)
    with (collection.output / "phase0_pairs.jsonl").open("ab") as file:
        file.write(b'{"example_id": "sample_id_000')  # an incomplete line, as after a kill
    done = collection.run("--resume")
    assert done.returncode == 0, done.stdout
    assert collection.comparable() == reference_collection.comparable()
    assert collection.answers() == 0


def test_a_reflector_that_refuses_parks_the_collection_and_a_working_one_continues(
    reference_collection: CollectionFolder, collection: CollectionFolder
) -> None:
    with http_server(Refusing) as address:
        broken = {"reflector": {"api_base": f"{address}/v1"}}
        collection.configure(broken, {"phase0": {"correctness": {"evaluator_api_base": f"{address}/v1"}}})
        process = start(["env", "OPENAI_API_KEY=some-key", *collection.command()])
        failed = finish(process)
    assert failed.returncode == 3, failed.stdout
    assert "parked: compress of sample_id_" in failed.stdout
    assert "HTTP 404" in failed.stdout
    assert f"go on with: orchestrator retry {collection.output}" in failed.stdout
    assert "Traceback" not in failed.stdout
    assert not collection.data.exists()
    collection.configure()
    done = collection.run("--resume")
    assert done.returncode == 0, done.stdout
    assert collection.comparable() == reference_collection.comparable()
    assert collection.repeated() == []


class Refusing(BaseHTTPRequestHandler):
    """An endpoint that answers every request with HTTP 404."""

    def do_POST(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()
