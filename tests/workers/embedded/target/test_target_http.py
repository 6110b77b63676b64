"""The embedded server's HTTP surface, as a client of SGLang's /generate meets it; what it refuses, and never runs."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import httpx
import numpy as np
import pytest
from farm_bench import until
from server_target import http_client
from small_model import make_small_model

from tasks.common.files import unix_url
from tasks.gpu.model_files import reference
from tasks.gpu.target import PROCESSOR
from workers.embedded.target.__main__ import main

CLUSTERING, CLUSTERS = "c0ffee" * 4, 6
ZERO = [0.0] * CLUSTERS
PROMPT = [504, 3575, 282]
KEY = "the-key-of-the-tests"


@pytest.fixture(scope="module")
def socket_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("target") / "server.sock"


@pytest.fixture(scope="module")
def http(socket_path: Path) -> Iterator[httpx.Client]:
    """A client with the key of a server whose end token is in cluster 0, and the others in the rest by their id."""
    folder = socket_path.parent
    labels = (np.arange(49152) % (CLUSTERS - 1) + 1).astype(np.uint8)
    labels[2] = 0
    np.save(folder / f"{CLUSTERING}.npy", labels)
    command = [sys.executable, "-m", "workers.embedded.target", "--model", str(make_small_model(folder))]
    command += ["--labels", str(folder), "--uds", str(socket_path)]
    process = subprocess.Popen(command, env={**os.environ, "WHETSTONE_TARGET_KEY": KEY})
    try:
        with http_client(unix_url(socket_path), 120) as client:
            client.headers["Authorization"] = f"Bearer {KEY}"
            until(lambda: is_ready(client), 120)
            yield client
        assert process.poll() is None, "the server died"
    finally:
        process.terminate()
        process.wait(60)


def is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def body(deltas: list[float] | None = None, ids: list[int] = PROMPT, **sampling: Any) -> dict[str, Any]:
    """A request for a greedy answer of 24 tokens; deltas, one of each cluster, steer it."""
    sampling = {"temperature": 0, "max_new_tokens": 24, **sampling}
    if deltas is None:
        return {"input_ids": ids, "sampling_params": sampling}
    steered = {**sampling, "custom_params": {"clustering": CLUSTERING, "deltas": deltas}}
    return {"input_ids": ids, "sampling_params": steered, "custom_logit_processor": PROCESSOR}


def post(http: httpx.Client, *given: Any, **sampling: Any) -> dict[str, Any]:
    reply = http.post("/generate", json=body(*given, **sampling))
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
    assert post(http, ZERO)["output_ids"] == ids
    only_three, end_at_once = post(http, [0, 0, 0, 500, 0, 0]), post(http, [500, 0, 0, 0, 0, 0])
    assert all(token % (CLUSTERS - 1) + 1 == 3 for token in only_three["output_ids"])
    assert end_at_once["output_ids"] == [2]
    # And says whether the model would have ended there without them
    assert (ended["meta_info"]["ends_unsteered"], end_at_once["meta_info"]["ends_unsteered"]) == (True, False)


def test_a_stop_text_ends_the_answer_as_in_sglang(http: httpx.Client) -> None:
    """The text is without it, its tokens are there and count, and the reply names it."""
    digits = {"regex": "(12345 ){30}"}
    whole, ended = post(http, **digits), post(http, stop=["nowhere", "45"], **digits)
    assert (ended["text"], whole["text"][:5]) == ("123", "12345")
    assert ended["meta_info"]["finish_reason"] == {"type": "stop", "matched": "45"}
    count = ended["meta_info"]["completion_tokens"]
    assert ended["output_ids"] == whole["output_ids"][:count] and count < 24
    # As there, an answer that reaches its length with the stop text has ended by its length
    cut = post(http, stop="45", max_new_tokens=count, **digits)
    assert cut["meta_info"]["finish_reason"]["type"] == "length" and cut["text"].endswith("45")


def test_an_answer_never_depends_on_other_requests(http: httpx.Client) -> None:
    """Given requests with a grammar, deltas and neither, all in flight at once, then each answers as if alone."""
    regex = r"Verdict: (pass|fail|通过|不通过)\nReason: [A-Za-z][ -~一-鿿]{0,9}\nConfidence: 0\.[0-9][0-9]"
    key = {"type": ["string", "null"], "maxLength": 12}
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}, "key": key}, "required": ["ok", "key"]}
    drawn = {"temperature": 1.0, "max_new_tokens": 150}
    asked = [
        one
        for seed in range(4)
        for one in (
            body(regex=regex, sampling_seed=seed, **drawn),
            body(json_schema=json.dumps(schema | {"additionalProperties": False}), sampling_seed=seed, **drawn),
            body(ids=list(range(17, 217 + 97 * seed)), sampling_seed=seed, temperature=0.8, max_new_tokens=9),
            body([0.0, 1.5, -2.0, float(seed), 0.0, 0.5], ids=list(range(40 + seed, 300))),
        )
    ]

    def answer(one: dict[str, Any]) -> dict[str, Any]:
        return cast("dict[str, Any]", http.post("/generate", json=one).json())

    alone = [answer(one) for one in asked]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(answer, asked))
    assert [one["output_ids"] for one in together] == [one["output_ids"] for one in alone]
    for by_regex, by_schema in zip(alone[::4], alone[1::4], strict=True):
        assert re.fullmatch(regex, by_regex["text"]) and set(json.loads(by_schema["text"])) == {"ok", "key"}
        for one in (by_regex, by_schema):
            assert one["meta_info"]["finish_reason"] == {"type": "stop", "matched": 2}


def test_a_client_that_goes_away_frees_its_row(http: httpx.Client, socket_path: Path) -> None:
    def running() -> tuple[int, int]:
        info = http.get("/server_info").json()
        return info["num_running_reqs"], info["num_waiting_reqs"]

    endless = json.dumps(body([-1000.0, *ZERO[1:]], max_new_tokens=1900)).encode()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(socket_path))
        head = f"Host: here\r\nAuthorization: Bearer {KEY}\r\nContent-Length: {len(endless)}\r\n\r\n"
        client.sendall(f"POST /generate HTTP/1.1\r\n{head}".encode() + endless)
        until(lambda: running() == (1, 0))
    until(lambda: running() == (0, 0))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (body(seed=1), "seed"),
        (body(temperature=-1), "temperature"),
        (body(stop=""), "stop"),
        (body(regex="("), "unclosed group"),
        (body(regex="(?=a)b"), "look-around"),
        (body(json_schema='{"type": "nonsense"}'), "nonsense"),
        (body(json_schema='{"$ref": "http://127.0.0.1:9/schema"}'), "does not fetch"),
        (body(json_schema='{"enum": []}'), "Unsatisfiable"),
        (body(json_schema='{"$ref": "#"}'), "cannot be followed"),
        (body(regex="a", json_schema="{}"), "only one of"),
        ({**body(), "stream": True}, "stream"),
        ({}, "input_ids"),
        (body(ids=[]), "input_ids"),
        (body(ids=[49152]), "vocabulary"),
        (body(ids=[-1]), "input_ids"),
        (body(ids=[5] * 8150), "context length"),
        (body(ZERO[1:]), "5 numbers"),
        (body([2000.0] * CLUSTERS), "-1000"),
        ({**body(ZERO), "custom_logit_processor": None}, "go together"),
        ({**body(), "custom_logit_processor": PROCESSOR}, "go together"),
        ({**body(ZERO), "custom_logit_processor": reference("processor")}, "processor.DeltaProcessor"),
        ({**body(ZERO), "custom_logit_processor": json.dumps({"callable": "80"})}, "by reference"),
        # a processor of another name, which is never run
        ({**body(ZERO), "custom_logit_processor": json.dumps({"callable": b"\x80\x04cos\nsystem\n.".hex()})},
         "os.system"),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_served_is_refused_with_a_reason(
    http: httpx.Client, asked: dict[str, Any], said: str
) -> None:
    response = http.post("/generate", json=asked)
    message = response.json()["error"]["message"]
    assert response.status_code == 400 and said in message
    assert "\n" not in message and len(message) < 400


def test_only_health_is_open_without_the_key(http: httpx.Client) -> None:
    for wrong in ("", "Bearer wrong", "Bearer", KEY, f"Basic {KEY}"):
        headers = {"Authorization": wrong}
        assert http.get("/health", headers=headers).status_code == 200
        assert http.get("/server_info", headers=headers).status_code == 401
        assert http.post("/generate", json=body(max_new_tokens=1), headers=headers).status_code == 401


def test_a_server_without_a_key_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"WHETSTONE_TARGET_KEY": ""})
    before = os.umask(0)  # which the program sets; in this process, because another one would load torch first
    try:
        with pytest.raises(SystemExit, match="WHETSTONE_TARGET_KEY is not set"):
            main(["--model", str(tmp_path), "--port", "0", "--labels", str(tmp_path)])
    finally:
        os.umask(before)
