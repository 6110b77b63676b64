"""The embedded server's HTTP surface, as a client of SGLang's /generate meets it; what it refuses, and never runs."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from embedded_server import CLUSTERS, HEADERS, KEY, TargetServer, serving, steered_body
from starlette.testclient import TestClient
from transformers import AutoTokenizer

from tasks.gpu.model_files import reference
from tasks.gpu.target import PROCESSOR
from workers.embedded.models import embedded_model
from workers.embedded.target.__main__ import Service, build_target_app, main
from workers.embedded.target.engine import Engine
from workers.embedded.target.protocol import Finished, GenerationRequest, Served
from workers.embedded.target.sampling import Grammars

ZERO = [0.0] * CLUSTERS
PROMPT = [504, 3575, 282]


def endless(new: int) -> dict[str, Any]:
    return steered_body([-1000.0, *ZERO[1:]], max_new_tokens=new)


def post(http: httpx.Client, more: dict[str, Any] = {}, **sampling: Any) -> dict[str, Any]:  # noqa: B006
    asked = {"input_ids": PROMPT, "sampling_params": {"temperature": 0, "max_new_tokens": 24, **sampling}, **more}
    reply = http.post("/generate", json=asked)
    assert reply.status_code == 200, reply.text
    return cast("dict[str, Any]", reply.json())


def test_the_reply_has_sglangs_form_and_deltas_steer(http: httpx.Client) -> None:
    whole, again = post(http), post(http)
    ids, meta = whole["output_ids"], whole["meta_info"]
    assert (meta["finish_reason"], meta["completion_tokens"]) == ({"type": "length", "length": 24}, 24)
    assert (meta["prompt_tokens"], again["meta_info"]["cached_tokens"]) == (len(PROMPT), len(PROMPT))
    assert whole["text"] and again["output_ids"] == ids
    # Like SGLang, the server counts and returns the token that stopped the answer, without its text
    ended = post(http, stop_token_ids=[ids[0]])
    assert (ended["output_ids"], ended["text"]) == (ids[:1], "")
    assert ended["meta_info"]["finish_reason"] == {"type": "stop", "matched": ids[0]}

    def steered(deltas: list[float]) -> dict[str, Any]:
        return post(http, steered_body(deltas))

    assert steered(ZERO)["output_ids"] == ids[:6]
    only_three, end_at_once = steered([0, 0, 0, 500, 0, 0]), steered([500, 0, 0, 0, 0, 0])
    assert all(token % (CLUSTERS - 1) + 1 == 3 for token in only_three["output_ids"])
    assert end_at_once["output_ids"] == [2]
    # and says whether the model would have ended there without them
    assert (ended["meta_info"]["ends_unsteered"], end_at_once["meta_info"]["ends_unsteered"]) == (True, False)


def test_a_stop_text_ends_the_answer_as_in_sglang(http: httpx.Client) -> None:
    """The text is without it, its tokens are there and count, and the reply names it."""
    digits, count = {"regex": "(12345 ){30}"}, 0
    whole = post(http, **digits)
    for stop in ("45", ["nowhere", "45"]):
        ended = post(http, stop=stop, **digits)
        assert (ended["text"], whole["text"][:5]) == ("123", "12345")
        assert ended["meta_info"]["finish_reason"] == {"type": "stop", "matched": "45"}
        count = ended["meta_info"]["completion_tokens"]
        assert ended["output_ids"] == whole["output_ids"][:count] and count < 24
    # As there, an answer that reaches its length with the stop text has ended by its length
    cut = post(http, stop="45", max_new_tokens=count, **digits)
    assert cut["meta_info"]["finish_reason"]["type"] == "length" and cut["text"].endswith("45")


def test_answers_keep_a_grammar_beside_others_without_one(http: httpx.Client) -> None:
    """Given requests with a regex, a schema and neither, all in flight at once, then each answers as if alone."""
    regex = r"Verdict: (pass|fail|通过|不通过)\nReason: [A-Za-z][ -~一-鿿]{0,9}\nConfidence: 0\.[0-9][0-9]"
    key = {"type": ["string", "null"], "maxLength": 12}
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}, "key": key}, "required": ["ok", "key"]}
    drawn = {"temperature": 1.0, "max_new_tokens": 150}
    forms: list[dict[str, Any]] = [
        {"regex": regex}, {"json_schema": json.dumps(schema | {"additionalProperties": False})}, {"max_new_tokens": 9}
    ]  # fmt: skip
    asked = [{**drawn, **form, "sampling_seed": seed} for seed in range(4) for form in forms]
    alone = [post(http, **one) for one in asked]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda one: post(http, **one), asked))
    assert [one["output_ids"] for one in together] == [one["output_ids"] for one in alone]
    for by_regex, by_schema in zip(alone[::3], alone[1::3], strict=True):
        assert re.fullmatch(regex, by_regex["text"]) and set(json.loads(by_schema["text"])) == {"ok", "key"}
        for one in (by_regex, by_schema):
            assert one["meta_info"]["finish_reason"] == {"type": "stop", "matched": 2}
    # An answer that is cut by its length is the beginning of one that matches
    cut = post(http, regex=regex, max_new_tokens=3)
    assert cut["meta_info"]["finish_reason"]["type"] == "length" and "Verdict:".startswith(cut["text"][:8])


def until_in_flight(http: httpx.Client, wanted: tuple[int, int]) -> None:
    deadline, found = time.monotonic() + 60, (-1, -1)
    while found != wanted:
        assert time.monotonic() < deadline, f"still {found}"
        info = http.get("/server_info").json()
        found = info["num_running_reqs"], info["num_waiting_reqs"]


def test_a_client_that_goes_away_frees_its_row(http: httpx.Client, target_server: TargetServer) -> None:
    body = json.dumps(endless(1900)).encode()
    host, port = target_server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        head = f"Host: {host}\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json\r\nContent-Length: "
        client.sendall(f"POST /generate HTTP/1.1\r\n{head}{len(body)}\r\n\r\n".encode() + body)
        until_in_flight(http, (1, 0))
    until_in_flight(http, (0, 0))


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
    model_folder: Path, labels_folder: Path
) -> None:
    with serving(model_folder, labels_folder) as server, ThreadPoolExecutor(1) as threads:
        with httpx.Client(base_url=server.url, headers=HEADERS, trust_env=False, timeout=120) as http:
            asked = threads.submit(http.post, "/generate", json=endless(8000))
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
        (steered_body(ZERO) | {"custom_logit_processor": reference("processor")}, "processor.DeltaProcessor"),
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


def test_a_server_without_a_key_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"WHETSTONE_TARGET_KEY": ""})
    before = os.umask(0)  # which the program sets; in this process, because another one would load torch first
    try:
        with pytest.raises(SystemExit, match="WHETSTONE_TARGET_KEY is not set"):
            main(["--model", str(tmp_path), "--port", "0", "--labels", str(tmp_path)])
    finally:
        os.umask(before)
