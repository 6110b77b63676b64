"""What is steered by a file, generated for a server or exported, is answered as by the deltas of a request."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from server_target import embedded_target, evaluate, server_process, store_run
from small_model import make_small_model
from transformers import AutoModelForCausalLM

from orchestrator.export.engines import TRANSFORMERS
from tasks.gpu.cluster import pack_labels, write_labels
from tasks.gpu.clustering.vocabulary import DIGIT, ENDS, UNLESS_DIGIT, sentence_ends
from tasks.gpu.processor import generate, render_file
from tasks.gpu.target import Generated, GenerateRequest, TargetClient
from tasks.records import PROCESSOR_FILE
from tasks.store.store import Store
from workers.sglang.host import LocalTargetHost

END_TOKEN = 2
LABELS = np.where(np.arange(49152) % 2, 1, 2)  # the end of the turn is in cluster 0, the others by their id
LABELS[END_TOKEN] = 0


@pytest.fixture(scope="module")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_small_model(tmp_path_factory.mktemp("small"))


def test_where_sentences_end_the_end_of_a_turn_is_raised_alike_by_the_server_and_in_transformers(
    host: LocalTargetHost, small_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given deltas that make digits, points and other ends of sentences likely, and a raised end of the turn
    ends, clustering = sentence_ends(str(small_model)), "0123456789abcdef"
    labels = np.where(LABELS == 0, 0, np.where(ends > 0, 1, 2)).astype(np.uint8)
    deltas, target = (20.0, 3.0, 0.0), embedded_target(small_model, dtype="float32")
    np.save(host.labels_folder() / f"{clustering}.npy", labels)
    write_labels(pack_labels(ends), f"{clustering}.ends", host.labels_folder())
    prompts = [(504 + n, 3575, 282) for n in range(12)]
    client = TargetClient(host.serve(target), 60, 4, host.api_key(target))

    def by_request(after_sentence: bool) -> list[Generated]:
        answers: dict[int, Generated] = {}
        steered: dict[str, Any] = {"deltas": deltas, "clustering": clustering, "end_after_sentence": after_sentence}
        asked = [GenerateRequest(prompt, 24, 0.0, 1.0, 1, (END_TOKEN,), **steered) for prompt in prompts]
        client.generate_many(asked, answers.__setitem__)
        return [answers[number] for number in range(len(prompts))]

    def by_export(prompt: Sequence[int]) -> list[int]:
        answer: list[int] = model.generate(
            torch.tensor([prompt]), logits_processor=[made()], do_sample=False, max_new_tokens=24,
            eos_token_id=END_TOKEN, pad_token_id=END_TOKEN,
        )[0, len(prompt) :].tolist()  # fmt: skip
        return answer[: answer.index(END_TOKEN)] if END_TOKEN in answer else answer

    # When the server answers by the requests' deltas, and transformers by an exported file
    by_cluster = {str(cluster): delta for cluster, delta in enumerate(deltas)}
    file = render_file(TRANSFORMERS, by_cluster, labels, clustering, [], ends=ends)
    (tmp_path / "steers_transformers.py").write_text(file)
    monkeypatch.syspath_prepend(str(tmp_path))
    made = importlib.import_module("steers_transformers").DeltaProcessor
    model: Any = AutoModelForCausalLM.from_pretrained(small_model, dtype=torch.float32).eval()
    answers = by_request(True)
    # Then the answers are the same, token for token
    assert [list(answer.output_ids) for answer in answers] == [by_export(prompt) for prompt in prompts]
    # and those that ended did so after a sentence, which answers do not that may end anywhere
    ended = [ends_sentence(ends, answer.output_ids) for answer in answers if answer.finish == "stop"]
    assert len(ended) > 3 and all(ended)
    assert not all(ends_sentence(ends, answer.output_ids) for answer in by_request(False) if answer.finish == "stop")


def ends_sentence(ends: np.ndarray, answer: Sequence[int]) -> bool:
    before, last = [0, 0, *(int(ends[token]) for token in answer)][-2:]
    return last == ENDS or (last == UNLESS_DIGIT and before != DIGIT)


def test_an_individual_is_answered_by_a_server_with_its_own_file(
    store: Store, host: LocalTargetHost, small_model: Path
) -> None:
    # Given a run with the lifecycle "restart", and the same run on a resident server
    questions = ("Sales were 12.", "The sky is blue.")
    for name, lifecycle in (("restarted", "restart"), ("resident", "resident")):
        target = embedded_target(small_model, lifecycle=lifecycle)
        sampling = dataclasses.replace(target.sampling, end_after_sentence=True)
        store_run(store, name, dataclasses.replace(target, sampling=sampling), LABELS, questions)
    individual, plain = [9.0, 0.25, -0.25], [0.0, 0.0, 0.0]
    [from_file] = evaluate(host, store, "restarted", [individual])
    # Then its server has loaded the file of the individual
    command = server_process(host).cmdline()
    loaded = Path(command[command.index("--processor") + 1])
    assert (loaded.name, loaded.read_text()) == (PROCESSOR_FILE, generate(store, "restarted", individual))
    by_request, unsteered = evaluate(host, store, "resident", [individual, plain])
    # And the file gives the answers that the request's deltas give, each generated for itself
    assert from_file.texts == by_request.texts != unsteered.texts
    assert from_file.generated == by_request.generated == len(questions)
    assert not set(from_file.keys) & set(by_request.keys)
