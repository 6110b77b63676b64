"""The embedded server's HTTP surface, as a client of SGLang's /generate meets it."""

from __future__ import annotations

import json
import random
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import cast

import httpx
import pytest
from embedded_server import CLUSTERS, HEADERS, KEY, TargetServer, serving, steered_body
from starlette.testclient import TestClient
from transformers import AutoTokenizer

from workers.embedded.models import embedded_model
from workers.embedded.target.__main__ import Service, build_target_app
from workers.embedded.target.engine import Engine, PendingRequest
from workers.embedded.target.protocol import Finished, GenerationRequest, Limits
from workers.embedded.target.sampling import Grammars

JSON = "application/json"
FRANCE = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"


@cache
def ids_of(text: str) -> list[int]:
    found: list[int] = AutoTokenizer.from_pretrained(embedded_model())(text)["input_ids"]
    return found


def test_the_reply_has_sglangs_form(http: httpx.Client) -> None:
    ids = ids_of(FRANCE)
    asked = {"input_ids": ids, "rid": "one", "sampling_params": {"temperature": 0, "max_new_tokens": 24}}
    reply = http.post("/generate", json=asked).json()

    meta = reply["meta_info"]
    assert "Paris" in reply["text"] and "<|im_end|>" not in reply["text"]
    assert meta["id"] == "one" and meta["e2e_latency"] > 0
    # Like SGLang, the server counts and returns the token that stopped the answer.
    assert meta["finish_reason"] == {"type": "stop", "matched": 2} and reply["output_ids"][-1] == 2
    assert meta["completion_tokens"] == len(reply["output_ids"])
    assert meta["prompt_tokens"] == len(ids)

    again = http.post("/generate", json=asked).json()
    assert again["output_ids"] == reply["output_ids"]
    assert again["meta_info"]["cached_tokens"] == len(ids)


def test_deltas_steer_and_zero_deltas_change_nothing(http: httpx.Client) -> None:
    plain = http.post("/generate", json={"input_ids": [504, 3575, 282],
                                         "sampling_params": {"temperature": 0, "max_new_tokens": 6}})  # fmt: skip
    zero = http.post("/generate", json=steered_body([0.0] * CLUSTERS))
    only_three = http.post("/generate", json=steered_body([0, 0, 0, 500, 0, 0]))
    end_at_once = http.post("/generate", json=steered_body([500, 0, 0, 0, 0, 0]))

    assert zero.json()["output_ids"] == plain.json()["output_ids"]
    assert all(token % (CLUSTERS - 1) + 1 == 3 for token in only_three.json()["output_ids"])
    assert end_at_once.json()["output_ids"] == [2]


def test_a_reply_says_whether_the_model_would_have_ended_there_without_deltas(http: httpx.Client) -> None:
    sampling = {"temperature": 0, "max_new_tokens": 24, "stop_token_ids": [2]}
    plain = http.post("/generate", json={"input_ids": ids_of(FRANCE), "sampling_params": sampling}).json()
    assert plain["meta_info"]["ends_unsteered"]
    raised = steered_body([500, 0, 0, 0, 0, 0]) | {"input_ids": [504, 3575, 282]}
    assert not http.post("/generate", json=raised).json()["meta_info"]["ends_unsteered"]


def test_a_stop_text_ends_the_answer_as_in_sglang(http: httpx.Client) -> None:
    """The text is without it, its tokens are there and count, and the reply names it."""
    sampling = {"temperature": 0, "max_new_tokens": 24}
    whole = http.post("/generate", json={"input_ids": ids_of("1 2 3 4 5 6"), "sampling_params": sampling}).json()
    assert " 9 " in whole["text"]
    for stop in (" 9", ["nowhere", " 9"]):
        ended = http.post(
            "/generate", json={"input_ids": ids_of("1 2 3 4 5 6"), "sampling_params": {**sampling, "stop": stop}}
        ).json()
        assert ended["text"] == whole["text"].partition(" 9")[0]
        assert ended["meta_info"]["finish_reason"] == {"type": "stop", "matched": " 9"}
        count = ended["meta_info"]["completion_tokens"]
        assert ended["output_ids"] == whole["output_ids"][:count] and count < 24
    # As there, an answer that reaches its length with the stop text has ended by its length.
    cut = http.post(
        "/generate",
        json={
            "input_ids": ids_of("1 2 3 4 5 6"),
            "sampling_params": {**sampling, "stop": " 9", "max_new_tokens": count},
        },
    ).json()
    assert cut["meta_info"]["finish_reason"]["type"] == "length" and cut["text"].endswith(" 9")


def test_answers_keep_a_grammar_beside_others_without_one(http: httpx.Client) -> None:
    """Given requests with a regex, a schema and neither, all in flight at once, then each answers as if alone."""
    regex = r"Verdict: (pass|fail)\nReason: [a-z ]{3,6}\nConfidence: 0\.[0-9][0-9]"
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    }
    drawn = {"temperature": 1.0, "max_new_tokens": 40, "sampling_seed": 5}
    bodies = [
        {"input_ids": ids_of("Judge."), "sampling_params": drawn | constrained}
        for constrained in ({"regex": regex}, {"json_schema": json.dumps(schema)}, {"max_new_tokens": 9})
    ]
    alone = [http.post("/generate", json=body).json() for body in bodies]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda body: http.post("/generate", json=body).json(), bodies * 2))
    assert [one["output_ids"] for one in together] == [one["output_ids"] for one in alone * 2]
    assert re.fullmatch(regex, alone[0]["text"]) and set(json.loads(alone[1]["text"])) == {"ok"}
    assert [one["meta_info"]["finish_reason"] for one in alone[:2]] == [{"type": "stop", "matched": 2}] * 2
    # An answer that is cut by its length is the beginning of one that matches.
    cut = http.post("/generate", json={**bodies[0], "sampling_params": {**drawn, "regex": regex, "max_new_tokens": 3}})
    assert cut.json()["meta_info"]["finish_reason"]["type"] == "length" and "Verdict:".startswith(
        cut.json()["text"][:8]
    )


def test_the_real_model_answers_the_same_in_any_company(http: httpx.Client) -> None:
    draw = random.Random(3)
    bodies = []
    for number in range(8):
        deltas = [draw.uniform(-3, 3) for _ in range(CLUSTERS)]
        body = steered_body(deltas, temperature=draw.choice((0, 0.7)), sampling_seed=number, max_new_tokens=8)
        bodies.append(body | {"input_ids": [draw.randrange(17, 49152) for _ in range(draw.choice((10, 120, 252)))]})

    alone = [http.post("/generate", json=body).json()["output_ids"] for body in bodies]
    order = draw.sample(range(8), 8) + draw.sample(range(8), 8)
    with ThreadPoolExecutor(16) as threads:
        replies = list(threads.map(lambda number: http.post("/generate", json=bodies[number]).json(), order))

    assert [reply["output_ids"] for reply in replies] == [alone[number] for number in order]


def _in_flight(http: httpx.Client) -> tuple[int, int]:
    info = http.get("/server_info").json()
    return info["num_running_reqs"], info["num_waiting_reqs"]


def _until(http: httpx.Client, wanted: tuple[int, int]) -> None:
    deadline = time.monotonic() + 60
    while _in_flight(http) != wanted:
        assert time.monotonic() < deadline, f"still {_in_flight(http)}"


def test_a_client_that_goes_away_frees_its_row(http: httpx.Client, target_server: TargetServer) -> None:
    body = json.dumps(steered_body([-1000.0] + [0.0] * (CLUSTERS - 1), max_new_tokens=8000)).encode()
    host, port = target_server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        head = f"Host: {host}\r\nAuthorization: Bearer {KEY}\r\nContent-Type: {JSON}\r\nContent-Length: {len(body)}"
        client.sendall(f"POST /generate HTTP/1.1\r\n{head}\r\n\r\n".encode() + body)
        _until(http, (1, 0))
    _until(http, (0, 0))


def test_health_answers_while_a_long_prompt_is_read(http: httpx.Client) -> None:
    body = {"input_ids": [random.Random(8).randrange(17, 49152) for _ in range(1200)],
            "sampling_params": {"max_new_tokens": 1, "temperature": 0}}  # fmt: skip
    slowest, answered = 0.0, 0
    with ThreadPoolExecutor(1) as threads:
        long = threads.submit(http.post, "/generate", json=body)
        while not long.done():
            start = time.perf_counter()
            assert http.get("/health").status_code == 200
            slowest = max(slowest, time.perf_counter() - start)
            answered += 1
        assert long.result().json()["meta_info"]["prompt_tokens"] == 1200
    assert answered > 10 and slowest < 1


class ReadyEngine:
    """Answers at once."""

    rows, alive, in_flight = 1, True, (0, 0)

    def submit(self, request: GenerationRequest) -> PendingRequest:
        pending = PendingRequest(request)
        pending.done.set_result(Finished((7, 2), 0, "stop", 2))
        return pending


def test_a_disk_that_takes_no_more_of_the_requests_log_costs_no_answer(tmp_path: Path) -> None:
    engine, tokenizer = cast(Engine, ReadyEngine()), AutoTokenizer.from_pretrained(embedded_model())
    limits = Limits(context=1000, vocabulary=50, eos=frozenset({2}), labels=tmp_path)
    with Path("/dev/full").open("ab", buffering=0) as full:
        service = Service(engine, Grammars(tokenizer, 50, {2}), limits, tokenizer, {"path": "", "weights": ""}, full)
        reply = TestClient(build_target_app(service)).post("/generate", json={"input_ids": [5]})
    assert (reply.status_code, reply.json()["output_ids"]) == (200, [7, 2])


@pytest.mark.long  # it waits for the limit
def test_a_server_that_is_stopped_says_so_to_an_answer_that_takes_too_long(
    model_folder: Path, labels_folder: Path, tmp_path: Path
) -> None:
    endless = steered_body([-1000.0] + [0.0] * (CLUSTERS - 1), max_new_tokens=8000)
    with serving(model_folder, labels_folder, tmp_path / "log") as server, ThreadPoolExecutor(1) as threads:
        with httpx.Client(base_url=server.url, headers=HEADERS, trust_env=False, timeout=120) as http:
            asked = threads.submit(http.post, "/generate", json=endless)
            _until(http, (1, 0))
            server.process.terminate()
            assert asked.result().status_code == 503 and "stopped" in asked.result().json()["error"]["message"]
        assert server.process.wait(timeout=10) == 0
