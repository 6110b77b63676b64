"""Phase 0 on the embedded farm: what it writes, and that no death changes it or asks anything twice."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from collecting import LOGS, Collecting, recompute
from workplace import ROOT, finish, start, victim, wait_until

from orchestrator.phase0.document import validate
from tasks.dataset import load_examples
from workers.embedded.models import embedded_model

pytestmark = pytest.mark.long
# How many moments the kill tests try: a few in every test run, ten by this variable.
MOMENTS = int(os.environ.get("WHETSTONE_KILL_MOMENTS", "2"))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Collecting]:
    found = Collecting(tmp_path)
    found.configure()
    yield found
    found.clear()


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collecting]:
    """A collection that nothing happened to."""
    found = Collecting(tmp_path_factory.mktemp("collected"))
    found.configure()
    done = found.run()
    assert done.returncode == 0, done.stdout
    (found.folder / "said.txt").write_text(done.stdout)
    yield found
    found.clear()


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
        assert len(example["retained_pairs"]) + len(example["discarded_pairs"]) == 2
        assert example["sample_weight"] == (1 / example["num_retained"] if example["num_retained"] else None)
    assert document["metadata"]["total_retained_pairs"] == sum(kept)
    assert document["metadata"]["train_retained_examples"] == sum(m > 0 for m in kept)


def test_what_section_8_says_is_logged(collected: Collecting) -> None:
    said = (collected.folder / "said.txt").read_text()
    assert '"prompt_template"' in said
    assert "split: train 4, val 4, test 40" in said
    for example in collected.document()["splits"]["train"]:
        counts = f"{example['example_id']}: 2 verbose answers, {example['num_retained']} retained"
        assert counts in said
    assert "of 4 examples retained" in said
    assert "largest differences" in said
    assert f"wrote {collected.data}, {collected.data.stat().st_size:,} bytes" in said
    assert (collected.output / "collect.log").read_text() in said


def test_killed_at_many_moments_it_resumes_and_repeats_nothing(collected: Collecting, place: Collecting) -> None:
    total = collected.answers()
    for moment in range(MOMENTS):
        wanted = total * (moment + 1) // (MOMENTS + 1)
        process = place.start(*(["--resume"] if moment else []))
        wait_until(lambda w=wanted, p=process: place.answers() >= w or p.poll() is not None, "answers")
        process.kill()
        process.communicate()
        wait_until(lambda: not place.processes(), "the killed command's farm to go away", 30)
    assert not place.data.exists()
    done = place.run("--resume")
    assert done.returncode == 0, done.stdout
    assert place.lasting() == collected.lasting()
    assert place.repeated() == []
    assert place.processes() == []


def test_no_death_on_the_farm_changes_the_output(collected: Collecting, place: Collecting) -> None:
    process = place.start()
    for number, kind in enumerate(("gpu", "openai", "cpu", "valkey")):
        wait_until(
            lambda n=number: len(place.answered(LOGS[0])) > n or process.poll() is not None,
            f"an answer before the {kind} is killed",
        )
        if process.poll() is not None:
            break
        wait_until(lambda k=kind: victim(place, k), f"a {kind} to kill")
        chosen = victim(place, kind)
        assert chosen is not None
        chosen.send_signal(signal.SIGKILL)
    done = finish(process)
    assert done.returncode == 0, done.stdout
    assert place.lasting() == collected.lasting()
    assert place.repeated() == []
    assert place.processes() == []


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


def test_a_reflector_that_refuses_ends_with_2_and_a_mended_one_goes_on(
    collected: Collecting, place: Collecting
) -> None:
    with refusing_server() as address:
        broken = {"reflector": {"api_base": address}}
        place.configure(broken, {"phase0": {"correctness": {"evaluator_api_base": address}}})
        process = start(["env", "OPENAI_API_KEY=some-key", *place.command()])
        failed = finish(process)
    assert failed.returncode == 2, failed.stdout
    assert "openai.compress" in failed.stdout
    assert "HTTP 404" in failed.stdout
    assert "--resume" in failed.stdout
    assert "Traceback" not in failed.stdout
    assert not place.data.exists()
    place.configure()
    done = place.run("--resume")
    assert done.returncode == 0, done.stdout
    assert place.lasting() == collected.lasting()
    assert place.repeated() == []


def test_what_is_wrong_is_told_before_anything_starts(place: Collecting, tmp_path: Path) -> None:
    rows = (ROOT / "configs" / "data" / "sample.jsonl").read_text().splitlines()
    bad = tmp_path / "bad.jsonl"
    bad.write_text("\n".join([rows[0], "{", rows[0], json.dumps({**json.loads(rows[1]), "answer": None})]))
    place.configure({"data": {"financebench_path": str(bad)}})
    done = place.run()
    assert done.returncode == 1, done.stdout
    for number in (2, 3, 4):
        assert f"line {number}:" in done.stdout
    place.configure({"seed": None, "phase0": {"k": None}})
    done = finish(start([*place.command()[:1], "collect_data_financebench.py", *place.command()[4:]]))
    assert done.returncode == 1, done.stdout
    assert done.stdout.splitlines() == ["orchestrator: seed: is null", "orchestrator: phase0.k: is null"]
    assert not place.farm.exists()
    assert not place.output.exists()


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
