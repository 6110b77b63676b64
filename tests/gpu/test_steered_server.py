"""Steering inside real SGLang: exactly the clusters that were asked for, in exactly the rows that asked."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import socket
from collections.abc import Mapping, Sequence

import numpy as np
import psutil
import pytest
import torch
from conftest import CLUSTERING, CLUSTERS, Server
from other_user import as_another_user
from server_target import http_client, server_process

from tasks.common.files import unix_path
from tasks.gpu.clustering.vocabulary import sentence_ends
from tasks.gpu.target import Generated, TargetClient, request_body
from workers.steering.request import OPEN, next_state

pytestmark = pytest.mark.gpu
CLEAR = 0.5  # between the two highest logits: bfloat16 rounds logits of this size by up to 0.13


def deltas(**some: float) -> list[float]:
    """Zero everywhere but in the clusters named c0, c1, ..."""
    return [some.get(f"c{cluster}", 0.0) for cluster in range(CLUSTERS)]


class Oracle:
    """A plain transformers loop over the same weights: the next token at every place of an answer, by one forward."""

    def __init__(self, model: str, labels: np.ndarray) -> None:
        from transformers import AutoModelForCausalLM

        self.model = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16).to("cuda").eval()
        self.labels = torch.from_numpy(labels.astype(np.int64)).to("cuda")

    @torch.inference_mode()
    def logits(self, prompt: Sequence[int], answer: Sequence[int], wanted: Sequence[float]) -> torch.Tensor:
        """Biased logits float32 [len(answer), V]."""
        ids = torch.tensor([[*prompt, *answer]], device="cuda")
        found = self.model(ids).logits[0, len(prompt) - 1 : -1].float()
        found[:, : len(self.labels)] += torch.tensor(wanted, device="cuda")[self.labels]
        return found


@pytest.fixture(scope="module")
def oracle(model: str, server: Server) -> Oracle:
    return Oracle(model, server.labels)


@pytest.mark.parametrize("kind", ["plain", "deterministic"])
def test_greedy_answers_are_those_of_a_plain_loop_with_the_same_bias(
    servers: Mapping[str, Server], oracle: Oracle, kind: str
) -> None:
    # Given individuals of random deltas whose requests, of many lengths, share one batch that they join and leave
    server, random = servers[kind], np.random.default_rng(11)
    people = [random.normal(0, size, CLUSTERS).tolist() for size in (0.3, 1.0, 2.0, 4.0)]
    asked = [(question, person) for question in range(24) for person in people]
    lengths = random.integers(4, 96, len(asked)).tolist()
    requests = [server.request(q, person, new=new) for (q, person), new in zip(asked, lengths, strict=True)]
    clear = places = changed = 0
    for (question, person), answer in zip(asked, server.answers(requests), strict=True):
        # When they answer, every clear place holds the token of the loop
        top = oracle.logits(server.prompts[question], answer.output_ids, person).topk(2, dim=-1)
        is_clear = (top.values[:, 0] - top.values[:, 1]) > CLEAR
        served = torch.tensor(answer.output_ids, device="cuda")
        assert torch.equal(served[is_clear], top.indices[is_clear, 0]), f"question {question}"
        unsteered = oracle.logits(server.prompts[question], answer.output_ids, deltas()).argmax(-1)
        clear, places = clear + int(is_clear.sum()), places + len(served)
        changed += int((served != unsteered)[is_clear].sum())
    print(f"{kind}: {clear} clear of {places} places, steering changed the token in {changed}")
    assert clear > 0.6 * places and changed > 0.05 * clear


def test_the_end_of_a_turn_is_raised_after_sentences_only(server: Server, oracle: Oracle, model: str) -> None:
    # Given answers of many lengths in one batch, whose end of a turn is raised after sentences
    classes, wanted = sentence_ends(model), deltas(c0=8.0, c2=0.3)
    requests = [server.request(question, wanted, new=160, end_after_sentence=True) for question in range(32)]
    stopped = 0
    for question, answer in enumerate(server.answers(requests)):
        # Then in each clear place there is the token of a plain loop by the same rule, and so is the end
        ids = [*answer.output_ids, *server.ends[:1]] if answer.finish == "stop" else answer.output_ids
        logits, state = oracle.logits(server.prompts[question], ids, wanted).clone(), 0
        for place, token in enumerate(ids):
            if not state & OPEN:
                logits[place, : len(oracle.labels)][oracle.labels == 0] -= wanted[0]
            top = logits[place].topk(2)
            if top.values[0] - top.values[1] > CLEAR:
                chosen, ends = int(top.indices[0]), place == len(answer.output_ids)
                assert server.labels[chosen] == 0 if ends else chosen == token, (question, place)
                stopped += ends and bool(state & OPEN)
            state = next_state(state, int(classes[token]))
    print(f"{stopped} of {len(requests)} answers clearly ended after a sentence")
    assert stopped > len(requests) / 4


def test_zero_deltas_are_no_processor(servers: Mapping[str, Server]) -> None:
    # Only where the company of a request cannot change it is "the same" a question of bits.
    server = servers["deterministic"]
    plain = server.answers([server.request(q, None) for q in range(32)])
    zero = server.answers([server.request(q, deltas()) for q in range(32)])
    assert [a.output_ids for a in zero] == [a.output_ids for a in plain]


def test_individuals_in_one_batch_never_mix(server: Server) -> None:
    # Given three in one batch: one may not use cluster 5, one not cluster 6, one is not steered at all
    people = [deltas(c5=-1000.0), deltas(c6=-1000.0), None]
    requests = [server.request(q % 40, people[q % 3], new=20 + q % 77, temperature=1.0, seed=q) for q in range(240)]
    used: list[set[int]] = [set(), set(), set()]
    for index, answer in enumerate(server.answers(requests)):
        used[index % 3] |= set(server.labels[list(answer.output_ids)].tolist())
    assert 5 not in used[0] and 6 in used[0]
    assert 6 not in used[1] and 5 in used[1]
    assert {5, 6} <= used[2]


def test_cluster_0_is_the_end_of_a_turn_and_nothing_else(server: Server) -> None:
    ended = server.answers([server.request(q, deltas(c0=1000.0)) for q in range(16)])
    assert [(a.output_ids, a.finish) for a in ended] == [((), "stop")] * 16
    endless = server.answers([server.request(q, deltas(c0=-1000.0), new=200) for q in range(16)])
    assert {(len(a.output_ids), a.finish) for a in endless} == {(200, "length")}
    assert not {token for a in endless for token in a.output_ids} & set(server.ends)


def test_cluster_1_is_the_numbers_and_nothing_else(server: Server) -> None:
    plain = server.answers([server.request(q, None) for q in range(16)])
    assert any(server.labels[token] == 1 for a in plain for token in a.output_ids)
    none = server.answers([server.request(q, deltas(c1=-1000.0)) for q in range(16)])
    assert not any(server.labels[token] == 1 for a in none for token in a.output_ids)
    only = server.answers([server.request(q, deltas(c1=1000.0), new=8) for q in range(16)])
    assert all(server.labels[token] == 1 for a in only for token in a.output_ids)


@pytest.mark.parametrize(("prompt", "wanted"), [(1, None), (2, deltas(c1=-1.0))])  # the longer prompt below is kept
def test_the_prefix_cache_keeps_prompts_and_no_answers(server: Server, prompt: int, wanted: list[float] | None) -> None:
    # Given an answer to a prompt
    request = server.request(prompt, wanted, new=64)
    [answer] = server.answers([request])
    assert answer.completion_tokens > 1, answer
    # When the next prompt goes on from the answer
    longer = dataclasses.replace(request, input_ids=(*request.input_ids, *answer.output_ids, 1, 1))
    [again] = server.answers([longer])
    # Then the cache had the prompt, or a part of it, and nothing of the answer
    assert 0 < again.cached_tokens <= len(request.input_ids), (again, len(request.input_ids), answer)


BAD = [
    None,
    [],
    {"clustering": CLUSTERING},
    {"clustering": "f" * 16, "deltas": deltas()},
    {"clustering": "../" * 8, "deltas": deltas()},
    {"clustering": CLUSTERING, "deltas": deltas()[1:]},
    {"clustering": CLUSTERING, "deltas": deltas(c3=1e9)},
]


def test_bad_parameters_are_refused_and_the_server_lives(server: Server) -> None:
    good = request_body(server.request(0, deltas()))
    bad = [{**good, "sampling_params": {**good["sampling_params"], "custom_params": params}} for params in BAD]
    bad.append({**good, "custom_logit_processor": json.dumps({"callable": "80049500"})})
    http, headers = http_client(server.url, 30), {"Authorization": f"Bearer {server.key}"}
    for body in bad:
        reply = http.post("/generate", json=body, headers=headers)
        assert reply.status_code == 400, (body, reply.status_code, reply.text)
    assert server.answers([server.request(0, deltas(c1=-1.0))])[0].completion_tokens > 0


def test_the_server_listens_on_its_socket_and_no_longer_on_a_port(server: Server) -> None:
    path, line = unix_path(server.url), server_process(server.host).cmdline()
    port = int(line[line.index("--port") + 1])
    with socket.socket() as connection:
        assert connection.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED
    assert server.key not in " ".join(line)
    if os.getuid() == 0:
        with socket.socket(socket.AF_UNIX) as connection:
            assert as_another_user(lambda: connection.connect_ex(path)) == errno.EACCES


def test_a_server_killed_in_mid_batch_is_brought_back(server: Server) -> None:
    # Given a server whose scheduler is killed while it answers
    url = server.url
    before = server_process(server.host).pid
    running = [(p, " ".join(p.info["cmdline"] or [])) for p in psutil.process_iter(["cmdline"])]
    [scheduler] = [p for p, line in running if "sglang::scheduler" in line and os.getpgid(p.pid) == os.getpgid(before)]
    answered: list[int] = []

    def kill(index: int, answer: Generated) -> None:
        answered.append(index)
        if len(answered) == 1:
            scheduler.send_signal(signal.SIGKILL)

    requests = [server.request(q % 40, deltas(c1=-1.0), new=8 if q == 0 else 800) for q in range(64)]
    # Then those who asked learn of it, and the next who asks finds another server
    with pytest.raises(Exception, match=r"unix:|broken off"):
        TargetClient(url, 30, 64, server.key, retry_s=1).generate_many(requests, kill)
    assert 1 <= len(answered) < 64
    again = server.answers([server.request(0, deltas(c1=-1.0))])
    assert server_process(server.host).pid != before and again[0].completion_tokens > 0
