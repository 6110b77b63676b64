"""The embedded server's HTTP surface, as a client of SGLang's /generate meets it; what it refuses, and never runs."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from embedded_server import CLUSTERS, HEADERS, KEY, TargetServer, serving, steered_body
from starlette.testclient import TestClient
from transformers import AutoTokenizer

from tasks.gpu.target import PROCESSOR
from workers.embedded.models import embedded_model
from workers.embedded.target.__main__ import Service, build_target_app, main
from workers.embedded.target.engine import Engine
from workers.embedded.target.protocol import Finished, GenerationRequest, Served
from workers.embedded.target.sampling import Grammars

FRANCE = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
ENDLESS = steered_body([-1000.0] + [0.0] * (CLUSTERS - 1), max_new_tokens=8000)
ZERO = [0.0] * CLUSTERS


@cache
def ids_of(text: str) -> list[int]:
    found: list[int] = AutoTokenizer.from_pretrained(embedded_model())(text)["input_ids"]
    return found


def post(http: httpx.Client, ids: list[int], more: dict[str, Any] = {}, **sampling: Any) -> dict[str, Any]:  # noqa: B006
    asked = {"input_ids": ids, "sampling_params": {"temperature": 0, "max_new_tokens": 24, **sampling}, **more}
    reply = http.post("/generate", json=asked)
    assert reply.status_code == 200
    return cast("dict[str, Any]", reply.json())


def test_the_reply_has_sglangs_form(http: httpx.Client) -> None:
    ids = ids_of(FRANCE)
    reply = post(http, ids)
    meta = reply["meta_info"]
    assert "Paris" in reply["text"] and "<|im_end|>" not in reply["text"]
    # Like SGLang, the server counts and returns the token that stopped the answer
    assert meta["finish_reason"] == {"type": "stop", "matched": 2} and reply["output_ids"][-1] == 2
    assert meta["completion_tokens"] == len(reply["output_ids"])
    assert meta["prompt_tokens"] == len(ids)
    again = post(http, ids)
    assert (again["output_ids"], again["meta_info"]["cached_tokens"]) == (reply["output_ids"], len(ids))


def test_deltas_steer_and_a_reply_says_whether_the_model_would_have_ended_there_without(http: httpx.Client) -> None:
    def steered(deltas: list[float]) -> dict[str, Any]:
        return cast("dict[str, Any]", http.post("/generate", json=steered_body(deltas)).json())

    assert steered(ZERO)["output_ids"] == post(http, [504, 3575, 282], max_new_tokens=6)["output_ids"]
    only_three, end_at_once = steered([0, 0, 0, 500, 0, 0]), steered([500, 0, 0, 0, 0, 0])
    assert all(token % (CLUSTERS - 1) + 1 == 3 for token in only_three["output_ids"])
    assert end_at_once["output_ids"] == [2] and not end_at_once["meta_info"]["ends_unsteered"]
    assert post(http, ids_of(FRANCE), stop_token_ids=[2])["meta_info"]["ends_unsteered"]


def test_a_stop_text_ends_the_answer_as_in_sglang(http: httpx.Client) -> None:
    """The text is without it, its tokens are there and count, and the reply names it."""
    ids, count = ids_of("1 2 3 4 5 6"), 0
    whole = post(http, ids)
    assert " 9 " in whole["text"]
    for stop in (" 9", ["nowhere", " 9"]):
        ended = post(http, ids, stop=stop)
        assert ended["text"] == whole["text"].partition(" 9")[0]
        assert ended["meta_info"]["finish_reason"] == {"type": "stop", "matched": " 9"}
        count = ended["meta_info"]["completion_tokens"]
        assert ended["output_ids"] == whole["output_ids"][:count] and count < 24
    # As there, an answer that reaches its length with the stop text has ended by its length
    cut = post(http, ids, stop=" 9", max_new_tokens=count)
    assert cut["meta_info"]["finish_reason"]["type"] == "length" and cut["text"].endswith(" 9")


def test_answers_keep_a_grammar_beside_others_without_one(http: httpx.Client) -> None:
    """Given requests with a regex, a schema and neither, all in flight at once, then each answers as if alone."""
    regex = r"Verdict: (pass|fail)\nReason: [a-z ]{3,6}\nConfidence: 0\.[0-9][0-9]"
    ok = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    schema = json.dumps(ok | {"additionalProperties": False})
    ids, drawn = ids_of("Judge."), {"temperature": 1.0, "max_new_tokens": 40, "sampling_seed": 5}
    asked: list[dict[str, Any]] = [{"regex": regex}, {"json_schema": schema}, {"max_new_tokens": 9}]
    alone = [post(http, ids, **(drawn | one)) for one in asked]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda one: post(http, ids, **(drawn | one)), asked * 2))
    assert [one["output_ids"] for one in together] == [one["output_ids"] for one in alone * 2]
    assert re.fullmatch(regex, alone[0]["text"]) and set(json.loads(alone[1]["text"])) == {"ok"}
    assert [one["meta_info"]["finish_reason"] for one in alone[:2]] == [{"type": "stop", "matched": 2}] * 2
    # An answer that is cut by its length is the beginning of one that matches
    cut = post(http, ids, **(drawn | {"regex": regex, "max_new_tokens": 3}))
    assert cut["meta_info"]["finish_reason"]["type"] == "length" and "Verdict:".startswith(cut["text"][:8])


def until_in_flight(http: httpx.Client, wanted: tuple[int, int]) -> None:
    deadline, found = time.monotonic() + 60, (-1, -1)
    while found != wanted:
        assert time.monotonic() < deadline, f"still {found}"
        info = http.get("/server_info").json()
        found = info["num_running_reqs"], info["num_waiting_reqs"]


def test_a_client_that_goes_away_frees_its_row(http: httpx.Client, target_server: TargetServer) -> None:
    body = json.dumps(ENDLESS).encode()
    host, port = target_server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        head = f"Host: {host}\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json\r\nContent-Length: "
        client.sendall(f"POST /generate HTTP/1.1\r\n{head}{len(body)}\r\n\r\n".encode() + body)
        until_in_flight(http, (1, 0))
    until_in_flight(http, (0, 0))


def test_health_answers_while_a_long_prompt_is_read(http: httpx.Client) -> None:
    ids, slowest, answered = [random.Random(8).randrange(17, 49152) for _ in range(1200)], 0.0, 0
    with ThreadPoolExecutor(1) as threads:
        long = threads.submit(post, http, ids, max_new_tokens=1)
        while not long.done():
            start = time.perf_counter()
            assert http.get("/health").status_code == 200
            slowest = max(slowest, time.perf_counter() - start)
            answered += 1
        assert long.result()["meta_info"]["prompt_tokens"] == 1200
    assert answered > 10 and slowest < 1


class ReadyEngine:
    """Answers at once."""

    rows, alive, in_flight = 1, True, (0, 0)

    def submit(self, request: GenerationRequest) -> None:
        request.done.set_result(Finished((7, 2), 0, "stop", 2))


def test_a_disk_that_takes_no_more_of_the_requests_log_costs_no_answer(tmp_path: Path) -> None:
    engine, tokenizer = cast(Engine, ReadyEngine()), AutoTokenizer.from_pretrained(embedded_model())
    served = Served(context=1000, vocabulary=50, eos=frozenset({2}), labels=tmp_path)
    with Path("/dev/full").open("ab", buffering=0) as full:
        service = Service(engine, Grammars(tokenizer, 50, {2}), served, tokenizer, {"path": "", "weights": ""}, full)
        reply = TestClient(build_target_app(service)).post("/generate", json={"input_ids": [5]})
    assert (reply.status_code, reply.json()["output_ids"]) == (200, [7, 2])


@pytest.mark.long  # it waits for the limit
def test_a_server_that_is_stopped_says_so_to_an_answer_that_takes_too_long(
    model_folder: Path, labels_folder: Path, tmp_path: Path
) -> None:
    with serving(model_folder, labels_folder, tmp_path / "log") as server, ThreadPoolExecutor(1) as threads:
        with httpx.Client(base_url=server.url, headers=HEADERS, trust_env=False, timeout=120) as http:
            asked = threads.submit(http.post, "/generate", json=ENDLESS)
            until_in_flight(http, (1, 0))
            server.process.terminate()
            assert asked.result().status_code == 503 and "stopped" in asked.result().json()["error"]["message"]
        assert server.process.wait(timeout=10) == 0


def sampled(**sampling: Any) -> dict[str, Any]:
    return {"input_ids": [5], "sampling_params": sampling}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (sampled(seed=1), "seed"),
        (sampled(temperature=-1), "temperature"),
        (sampled(stop=""), "stop"),
        (sampled(regex="("), "unclosed group"),
        (sampled(regex="[z-a]"), "invalid character class"),
        (sampled(regex="(?=a)b"), "look-around"),
        (sampled(json_schema='{"type": "nonsense"}'), "nonsense"),
        (sampled(json_schema='{"$ref": "http://127.0.0.1:9/schema"}'), "does not fetch"),
        (sampled(json_schema='{"enum": []}'), "Unsatisfiable"),
        (sampled(json_schema='{"$ref": "#"}'), "cannot be followed"),
        (sampled(regex="a", json_schema="{}"), "only one of"),
        ({"input_ids": [5], "stream": True}, "stream"),
        ({}, "input_ids"),
        ({"input_ids": []}, "input_ids"),
        ({"input_ids": [49152]}, "vocabulary"),
        ({"input_ids": [-1]}, "input_ids"),
        ({"input_ids": [5] * 8150}, "context length"),
        (steered_body(ZERO[1:]), "5 numbers"),
        (steered_body(ZERO) | {"custom_logit_processor": None}, "go together"),
        ({"input_ids": [5], "custom_logit_processor": PROCESSOR}, "go together"),
        (steered_body([2000.0] * CLUSTERS), "-1000"),
        (steered_body(ZERO) | {"custom_logit_processor": json.dumps({"callable": "80"})}, "by reference"),
        # a processor of another name, which is never run
        (steered_body(ZERO) | {"custom_logit_processor": json.dumps({"callable": b"\x80\x04cos\nsystem\n.".hex()})},
         "os.system"),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_served_is_refused_with_a_reason(
    http: httpx.Client, body: dict[str, Any], said: str
) -> None:
    response = http.post("/generate", json=body)
    message = response.json()["error"]["message"]
    assert response.status_code == 400 and said in message
    assert "\n" not in message and len(message) < 400


def test_only_health_is_open_without_the_key(http: httpx.Client) -> None:
    body = sampled(max_new_tokens=1)
    with httpx.Client(base_url=http.base_url, trust_env=False, timeout=60) as client:
        assert client.get("/health").status_code == 200
        assert client.get("/server_info").status_code == 401
        for wrong in ("", "Bearer wrong", "Bearer", KEY, f"Basic {KEY}"):
            assert client.post("/generate", json=body, headers={"Authorization": wrong}).status_code == 401
        assert client.post("/generate", json=body, headers=HEADERS).status_code == 200


@pytest.mark.parametrize("environment", [{}, {"WHETSTONE_TARGET_KEY": ""}])
def test_a_server_without_a_key_does_not_start(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", environment)
    before = os.umask(0)  # which the program sets; in this process, because another one would load torch first
    try:
        with pytest.raises(SystemExit, match="WHETSTONE_TARGET_KEY is not set"):
            main(["--model", str(tmp_path), "--port", "0", "--labels", str(tmp_path)])
    finally:
        os.umask(before)
