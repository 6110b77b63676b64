"""The strength of a request scales all its deltas: by parameters, and by a file that the server has loaded."""

from __future__ import annotations

import json
from typing import Any

import httpx
from embedded_server import CLUSTERING, CLUSTERS

from tasks.gpu.target import PROCESSOR

PROMPTS = ([504, 3575, 282], [1, 1780, 198], [253, 617, 19])
DELTAS = [2.0 * (i % 3) - 1.5 for i in range(CLUSTERS)]
FILE = json.dumps({"callable": b"\x80\x04cprocessor_best\nDeltaProcessor\n.".hex()})


def answers(http: httpx.Client, string: str | None = None, params: dict[str, Any] | None = None) -> list[list[int]]:
    sampling = {"temperature": 0, "max_new_tokens": 12, "custom_params": params}
    bodies = [{"input_ids": ids, "sampling_params": sampling, "custom_logit_processor": string} for ids in PROMPTS]
    replies = [http.post("/generate", json=body) for body in bodies]
    assert [reply.status_code for reply in replies] == [200] * len(PROMPTS)
    return [reply.json()["output_ids"] for reply in replies]


def steered(http: httpx.Client, deltas: list[float], **strength: float) -> list[list[int]]:
    return answers(http, PROCESSOR, {"clustering": CLUSTERING, "deltas": deltas, **strength})


def test_answers_are_those_of_the_scaled_deltas(http: httpx.Client) -> None:
    plain, whole = answers(http), steered(http, DELTAS)
    assert plain != whole
    assert steered(http, DELTAS, strength=1) == whole and steered(http, DELTAS, strength=0) == plain
    assert steered(http, DELTAS, strength=0.5) == steered(http, [delta / 2 for delta in DELTAS])
    # the file too, for which what is out of range counts as its end, and no number as none
    by_file = answers(http, FILE, {})
    assert by_file not in (plain, whole)
    assert [answers(http, FILE, {"strength": one}) for one in (1, 7, "fast", None)] == [by_file] * 4
    assert [answers(http, FILE, {"strength": one}) for one in (0, -3)] == [plain] * 2
