"""The lifecycle "restart": the server of each individual loads its generated processor.py, which steers its answers."""

import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import psutil
import pytest
from answer_runs import embedded_target, evaluate, installed_host, put_run

from tasks.context import content_hash
from tasks.exports import PROCESSOR_FILE
from tasks.gpu.processor import generate, processor_reference
from tasks.gpu.processor_template import render_file
from tasks.gpu.sglang_file import SGLANG
from tasks.gpu.target import Generated, GenerateRequest, TargetClient
from tasks.models import Target
from tasks.store.store import Store
from workers.sglang.host import LocalTargetHost

QUESTIONS = ("Sales were 12.", "The sky is blue.")
PROMPT = (504, 3575, 282)
END, ODD, EVEN = 0, 1, 2  # clusters: the end of the turn, and all other tokens by their id
LABELS = np.where(np.arange(49152) % 2, ODD, EVEN)
LABELS[2] = END


@pytest.fixture
def host(tmp_path: Path) -> Iterator[LocalTargetHost]:
    host = LocalTargetHost(tmp_path / "host", "gpu", dict(os.environ))
    yield host
    host.close()


def processor(*deltas: float) -> str:
    by_cluster = {str(cluster): delta for cluster, delta in enumerate(deltas)}
    return render_file(SGLANG, by_cluster, LABELS, content_hash(LABELS.tolist())[:32], [])


def ask(host: LocalTargetHost, target: Target, text: str, requests: Sequence[GenerateRequest]) -> list[Generated]:
    answers: dict[int, Generated] = {}
    client = TargetClient(host.serve(target, text), 60, 4, host.api_key(target))
    client.generate_many(requests, answers.__setitem__)
    return [answers[index] for index in range(len(requests))]


def test_the_file_alone_steers_a_request_that_names_it(host: LocalTargetHost, small_model: Path) -> None:
    restarted = embedded_target(small_model, lifecycle="restart")
    # Given one request that carries no deltas and names the processor, and one that is not steered
    plain = GenerateRequest(PROMPT, 6, 0.0, 1.0, 1, (2,))
    named = dataclasses.replace(plain, processor=processor_reference())
    # When servers answer them with different files, then each file decides its answer, and the plain one stays
    odd = ask(host, restarted, processor(-500.0, 500.0, 0.0), [named, plain])
    ended = ask(host, restarted, processor(500.0, 0.0, 0.0), [named, plain])
    assert {int(LABELS[token]) for token in odd[0].output_ids} == {ODD}
    assert (ended[0].output_ids, ended[0].finish) == ((), "stop")
    assert odd[1].output_ids == ended[1].output_ids
    # And a server without a file refuses the request
    with pytest.raises(RuntimeError, match=r"not processor\.DeltaProcessor|go together"):
        ask(host, restarted, "", [named])


def test_an_individual_is_answered_by_a_server_with_its_own_file(
    store: Store, host: LocalTargetHost, small_model: Path
) -> None:
    # Given a run with the lifecycle "restart", and the same run on a resident server
    for name, lifecycle in (("restarted", "restart"), ("resident", "resident")):
        target = embedded_target(small_model, lifecycle=lifecycle)
        put_run(store, name, target, LABELS, QUESTIONS)
    individuals = [[-500.0, 500.0, 0.0], [0.0, 0.25, -0.25]]
    with installed_host(host):
        from_file = evaluate(store, "restarted", individuals)
        # Then the server that answered last has loaded the file of one of them
        server = host._server  # its process is the evidence
        assert server is not None and server.pid is not None
        command = psutil.Process(server.pid).cmdline()
        loaded = Path(command[command.index("--processor") + 1])
        assert loaded.name == PROCESSOR_FILE
        assert loaded.read_text() in [generate(store, "restarted", deltas) for deltas in individuals]
        by_request = evaluate(store, "resident", individuals)
    # And the file gives the answers that the request's deltas give, each generated for itself
    assert [e.texts for e in from_file] == [e.texts for e in by_request]
    assert from_file[0].texts != from_file[1].texts
    assert {e.generated for e in (*from_file, *by_request)} == {len(QUESTIONS)}
    assert not {key for e in from_file for key in e.keys} & {key for e in by_request for key in e.keys}
