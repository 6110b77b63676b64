"""Answers of real SGLang servers in one store: their identities separate them, and a generated file steers them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from conftest import CLUSTERS, SAMPLE, host_in, labels_of, target_of
from server_target import evaluate, own_store, server_process, store_run

from tasks.gpu.processor import generate
from tasks.gpu.prompt import load_tokenizer
from tasks.questions import load_examples
from tasks.records import PROCESSOR_FILE
from tasks.store.address import ENVIRONMENT_VARIABLE
from tasks.store.store import Store

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900)]
QUESTIONS = [example.context for example in load_examples(SAMPLE)[:16]]
ZERO = [0.0] * CLUSTERS


@pytest.fixture(autouse=True)
def _address(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, valkey_url)


def test_servers_of_different_arguments_on_one_valkey_share_no_answer(model: str, store: Store, tmp_path: Path) -> None:
    # Given two servers of one model on one GPU, of which one quantizes its weights
    labels, results, quantizations = labels_of(model), [], []
    with closing(host_in(tmp_path / "plain")) as plain, closing(host_in(tmp_path / "quantized")) as quantized:
        # When runs that differ in nothing else evaluate the same individual
        for run, host, arguments in (("1", plain, ""), ("2", quantized, "--quantization fp8"), ("3", plain, "")):
            target = target_of(model, arguments)
            quantizations.append(host.identity(target).get("quantization"))
            store_run(store, run, target, labels, QUESTIONS)
            with own_store():
                results += evaluate(host, store, run, [ZERO])
    # Then each server has generated its own answers, and the same server again nothing
    assert quantizations == [None, "fp8", None]
    assert [result.generated for result in results] == [len(QUESTIONS), len(QUESTIONS), 0]
    first, second, third = (result.keys for result in results)
    assert not set(first) & set(second)
    assert third == first


def test_with_restart_the_generated_file_steers_sglang(model: str, store: Store, tmp_path: Path) -> None:
    # Given a run with the lifecycle "restart", in which one individual ends every turn and one avoids numbers
    labels = labels_of(model)
    store_run(store, "restarted", target_of(model, "", "restart"), labels, QUESTIONS)
    ended, wordy = [1000.0, *ZERO[1:]], [0.0, -1000.0, *ZERO[2:]]
    with closing(host_in(tmp_path)) as host, own_store():
        [short] = evaluate(host, store, "restarted", [ended])
        [numberless] = evaluate(host, store, "restarted", [wordy])
        # Then the last server has the folder of its file on its module path
        folders = map(Path, server_process(host).environ()["PYTHONPATH"].split(":"))
        folder = next(folder for folder in folders if (folder / PROCESSOR_FILE).exists())
        assert (folder / PROCESSOR_FILE).read_text() == generate(store, "restarted", wordy)
    # And no request carried deltas, so the file alone has done this
    # (cluster 0 holds more tokens than a request stops at, so some may come before the end; none of them is text)
    assert set(short.texts) == {""}
    assert {answer["finish"] for answer in short.answers} <= {"stop", "length"}
    tokens = {token for text in numberless.texts for token in load_tokenizer(model)(text)["input_ids"]}
    assert tokens and not any(labels[token] == 1 for token in tokens)
