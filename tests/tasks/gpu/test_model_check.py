"""The check of a run's model: hashes of its files, and the answers that the run has, or that the target gives."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answer_runs import evaluate, installed_host, put_run
from server_target import TINY_SERVER, server_target

from tasks.gpu.answer import PromptBatch
from tasks.gpu.model_check import ANSWERS, make_check, model_files, no_check, shortest, tokens_to_ask
from tasks.gpu.processor_check import model_hashes
from tasks.gpu.processor_template import NO_CHECK
from tasks.store.address import ENVIRONMENT_VARIABLE
from tasks.store.store import Store
from workers.embedded.models import embedded_model
from workers.sglang.host import LocalTargetHost

DELTAS = [1.0, 0.0, -2.0]
QUESTIONS = ["word " * n for n in range(ANSWERS + 4)]


@pytest.fixture
def host(valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalTargetHost]:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, valkey_url)
    host = LocalTargetHost(tmp_path / "host", "gpu", {**os.environ, "PYTHONPATH": ""})
    with installed_host(host):
        yield host
    host.close()


def put(store: Store, temperature: float = 0.0, steered_min_new_tokens: int = 0, **changes: Any) -> None:
    target = server_target()
    sampling = dataclasses.replace(
        target.sampling, temperature=temperature, steered_min_new_tokens=steered_min_new_tokens
    )
    changed = {"model": str(embedded_model()), "concurrency": 4, "sampling": sampling, **changes}
    put_run(store, "run", dataclasses.replace(target, **changed), np.arange(50) % len(DELTAS), QUESTIONS)


def test_a_greedy_runs_answers_are_taken_from_the_store(store: Store, host: LocalTargetHost) -> None:
    # Given a run in which these deltas were evaluated
    put(store)
    [evaluated] = evaluate(store, "run", [DELTAS])
    before = store.usage("run")
    # When the check is made
    check = make_check(store, "run", DELTAS, server_target().system_prompt)
    # Then it names the model, and holds the twenty shortest prompts with the run's own answers; nothing is generated
    assert check["name"] == embedded_model().name and check["stops"] == [2]
    assert {"config": check["config"], "tokenizer": check["tokenizer"]} == model_hashes(str(embedded_model()))
    assert len(check["answers"]) == ANSWERS and store.usage("run") == before
    lengths = [len(answer["prompt"]) for answer in check["answers"]]
    assert lengths == sorted(lengths)
    assert {answer["text"] for answer in check["answers"]} < set(evaluated.texts)
    # the tiny server ends an answer after one token
    assert {answer["tokens"] for answer in check["answers"]} == {2}


def test_of_a_run_that_samples_greedy_answers_are_asked_for(store: Store, host: LocalTargetHost) -> None:
    put(store, temperature=0.7)
    evaluate(store, "run", [DELTAS])
    before = store.usage("run")["target"]
    check = make_check(store, "run", DELTAS, "")
    assert len(check["answers"]) == ANSWERS and store.usage("run")["target"] == before + ANSWERS


def test_the_check_has_the_least_number_of_tokens_of_the_steered_answers(store: Store, host: LocalTargetHost) -> None:
    # Given a run whose steered answers have at least four tokens
    put(store, command=f"{TINY_SERVER} --fail 'no such model'", steered_min_new_tokens=4)
    # Then a check says so, with answers or without, and not of deltas that steer nothing
    for deltas, least in ((DELTAS, 4), ([0.0] * len(DELTAS), 0)):
        assert make_check(store, "run", deltas, "")["min_new_tokens"] == least
        assert no_check(store, "run", deltas) == {**NO_CHECK, "min_new_tokens": least}


def test_without_a_server_the_check_has_no_answers(store: Store, host: LocalTargetHost) -> None:
    put(store, command=f"{TINY_SERVER} --fail 'no such model'")
    check = make_check(store, "run", DELTAS, "")
    assert check["answers"] == [] and len(check["config"]) == len(check["tokenizer"]) == 64


def test_the_shortest_prompts_are_taken_once_each() -> None:
    first = PromptBatch(("a", "b"), ((1, 2, 3), (1,)), ("ha", "hb"), (2,))
    second = PromptBatch(("c", "b"), ((1, 2), (1,)), ("hc", "hb"), (2,))
    assert shortest([first, second], 2) == PromptBatch(("b", "c"), ((1,), (1, 2)), ("hb", "hc"), (2,))


@pytest.mark.parametrize(
    ("tokens", "finish", "asked"), [(5, "stop", 6), (5, "length", 5), (32, "stop", 32), (400, "length", 32)]
)
def test_as_many_tokens_are_asked_for_as_the_answer_has(tokens: int, finish: str, asked: int) -> None:
    assert tokens_to_ask(tokens, finish) == asked


def test_a_model_that_is_not_on_this_machine_has_no_files(tmp_path: Path) -> None:
    assert model_files(str(tmp_path)) == str(tmp_path)
    assert model_files("nobody/no-such-model") == "" and model_files("/no/such/folder") == ""
