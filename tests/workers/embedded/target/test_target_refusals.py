"""What the embedded server refuses, with a reason, and never runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import httpx
import pytest
from embedded_server import CLUSTERS, HEADERS, KEY, steered_body

from tasks.gpu.target import PROCESSOR
from workers.embedded.target.__main__ import main

JSON = "application/json"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"input_ids": [5], "sampling_params": {"seed": 1}}, "seed"),
        ({"input_ids": [5], "sampling_params": {"frequency_penalty": 1.0}}, "frequency_penalty"),
        ({"input_ids": [5], "sampling_params": {"temperature": -1}}, "temperature"),
        ({"input_ids": [5], "sampling_params": {"stop": ""}}, "stop"),
        ({"input_ids": [5], "sampling_params": {"regex": "("}}, "unclosed group"),
        ({"input_ids": [5], "sampling_params": {"json_schema": '{"type": "nonsense"}'}}, "nonsense"),
        ({"input_ids": [5], "sampling_params": {"regex": "a", "json_schema": "{}"}}, "only one of"),
        ({"input_ids": [5], "stream": True}, "stream"),
        ({}, "input_ids"),
        ({"input_ids": []}, "input_ids"),
        ({"input_ids": [49152]}, "vocabulary"),
        ({"input_ids": [-1]}, "input_ids"),
        ({"input_ids": [5] * 8150}, "context length"),
        (steered_body([0.0] * (CLUSTERS - 1)), "5 numbers"),
        (steered_body([0.0] * CLUSTERS) | {"custom_logit_processor": None}, "go together"),
        ({"input_ids": [5], "custom_logit_processor": PROCESSOR}, "go together"),
        (steered_body([2000.0] * CLUSTERS), "-1000"),
        (steered_body([0.0] * CLUSTERS) | {"custom_logit_processor": json.dumps({"callable": "80"})}, "by reference"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused_with_a_reason(
    http: httpx.Client, body: dict[str, Any], said: str
) -> None:
    response = http.post("/generate", json=body)
    assert response.status_code == 400
    assert said in response.json()["error"]["message"]


def test_a_processor_of_another_name_is_refused_and_never_run(http: httpx.Client) -> None:
    evil = json.dumps({"callable": b"\x80\x04cos\nsystem\n.".hex()})
    response = http.post("/generate", json=steered_body([0.0] * CLUSTERS) | {"custom_logit_processor": evil})
    assert response.status_code == 400 and "os.system" in response.json()["error"]["message"]


def test_only_health_is_open_without_the_key(http: httpx.Client) -> None:
    body = {"input_ids": [5], "sampling_params": {"max_new_tokens": 1}}
    with httpx.Client(base_url=http.base_url, trust_env=False, timeout=60) as client:
        assert client.get("/health").status_code == 200
        assert client.get("/server_info").status_code == 401
        assert client.post("/generate", json=body).status_code == 401
        for other in ("Bearer wrong", "Bearer", KEY, f"Basic {KEY}"):
            assert client.post("/generate", json=body, headers={"Authorization": other}).status_code == 401
        assert client.post("/generate", json=body, headers=HEADERS).status_code == 200


@pytest.mark.parametrize("key", [None, ""])
def test_a_server_without_a_key_does_not_start(
    key: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WHETSTONE_TARGET_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("WHETSTONE_TARGET_KEY", key)
    before = os.umask(0)  # which the program sets; in this process, because another one would load torch first
    try:
        with pytest.raises(SystemExit) as ended:
            main(["--model", str(tmp_path), "--port", "0", "--labels", str(tmp_path)])
    finally:
        os.umask(before)
    assert "WHETSTONE_TARGET_KEY is not set" in str(ended.value.code)
