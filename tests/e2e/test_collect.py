"""Phase 0 on the embedded farm: what it writes, and how it goes on."""

from __future__ import annotations

import random
import shutil
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from collecting import Collecting, recompute
from PIL import Image
from workplace import ROOT, finish, start

from orchestrator.collect.document import validate
from tasks.dataset import load_examples
from workers.embedded.models import embedded_model

pytestmark = pytest.mark.long


def test_the_output_fits_its_schema_and_leaves_nothing_running(collected: Collecting) -> None:
    validate(collected.document())
    assert collected.processes() == []
    assert collected.repeated() == []


def test_the_tokens_and_differences_are_those_of_an_independent_computation(collected: Collecting) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(embedded_model())
    document = collected.document()
    selection = document["token_selection"]
    wanted = recompute(document, tokenizer)
    kept = {example["num_retained"] for example in document["splits"]["train"]} - {0}
    assert len(kept) > 1, "all weights are equal: this would prove little"
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


def test_the_splits_are_the_specifications_and_every_sample_is_accounted_for(collected: Collecting) -> None:
    document = collected.document()
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


def test_the_most_wasted_tokens_are_drawn(collected: Collecting) -> None:
    with Image.open(collected.output / "wasted_tokens.png") as picture:
        picture.load()
        assert picture.format == "PNG"


def test_what_section_8_says_is_logged(collected: Collecting) -> None:
    said = (collected.folder / "said.txt").read_text()
    assert '"prompt_template"' in said
    assert "split: train 4, val 4, test 40" in said
    for example in collected.document()["splits"]["train"]:
        counts = f"{example['example_id']}: 3 verbose answers, {example['num_retained']} retained"
        assert counts in said
    assert "of 4 examples retained" in said
    assert "largest differences" in said
    assert f"wrote {collected.data}, {collected.data.stat().st_size:,} bytes" in said
    assert (collected.output / "collect.log").read_text() in said


def test_from_the_checkpoints_alone_nothing_is_asked_again(collected: Collecting, place: Collecting) -> None:
    place.output.mkdir()
    for name in ("phase0_verbose.jsonl", "phase0_pairs.jsonl"):
        shutil.copy(collected.output / name, place.output)
    with (place.output / "phase0_pairs.jsonl").open("ab") as file:
        file.write(b'{"example_id": "sample_id_000')  # as a kill leaves it
    done = place.run("--resume")
    assert done.returncode == 0, done.stdout
    assert place.lasting() == collected.lasting()
    assert place.answers() == 0


def test_a_reflector_that_refuses_parks_the_collection_and_another_one_goes_on(
    collected: Collecting, place: Collecting
) -> None:
    with refusing_server() as address:
        broken = {"reflector": {"api_base": address}}
        place.configure(broken, {"phase0": {"correctness": {"evaluator_api_base": address}}})
        process = start(["env", "OPENAI_API_KEY=some-key", *place.command()])
        failed = finish(process)
    assert failed.returncode == 3, failed.stdout
    assert "parked: compress of sample_id_" in failed.stdout
    assert "HTTP 404" in failed.stdout
    assert f"go on with: orchestrator retry {place.output}" in failed.stdout
    assert "Traceback" not in failed.stdout
    assert not place.data.exists()
    place.configure()
    done = place.run("--resume")
    assert done.returncode == 0, done.stdout
    assert place.lasting() == collected.lasting()
    assert place.repeated() == []


class refusing_server:  # noqa: N801  # used as a function
    """An endpoint that knows no such address: HTTP 404 for everything."""

    def __enter__(self) -> str:
        self._server = HTTPServer(("127.0.0.1", 0), _Refusing)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Refusing(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """Nothing: the test reads the command's output."""
