"""A dial on a real server: its answers are those of the interpolated deltas, by parameters and by a file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from embedded_server import CLUSTERING, CLUSTERS, HEADERS, TargetServer, serving

from tasks.dial import Dial, Knot
from tasks.exports import PROCESSOR_FILE
from tasks.gpu.dial import render_dial
from workers.steering.request import reference_string

DIALS = [0.0, 0.25, 0.4, 0.7, 1.0]
PROMPTS = ([504, 3575, 282], [1, 1780, 198], [253, 617, 19])
KNOTS = (
    Knot("zero", 0.0, 80.0, 0.7, (0.0,) * CLUSTERS),
    Knot("a", 0.4, 56.0, 0.6, (2.5, 0.7, -0.3, 1.1, -0.9, 0.2)),
    Knot("b", 1.0, 20.0, 0.5, (6.0, -2.1, 3.3, -0.4, 0.9, -1.7)),
)
DIAL = Dial(CLUSTERING, "", (1.0, 0.5, -0.5, 0.0, 0.3, -0.3), KNOTS)


@pytest.fixture(scope="module")
def dial_server(
    model_folder: Path, labels_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TargetServer]:
    """A server that has loaded the dial's file, and whose labels folder holds what this file has written."""
    folder = tmp_path_factory.mktemp("dial")
    labels = np.load(labels_folder / f"{CLUSTERING}.npy")
    file = folder / PROCESSOR_FILE
    file.write_text(render_dial(DIAL, labels, []))
    subprocess.run([sys.executable, file, "--plugin", folder / "labels"], check=True, capture_output=True)
    with serving(model_folder, folder / "labels", folder / "requests.jsonl", "--processor", str(file)) as server:
        yield server


@pytest.fixture
def dial_http(dial_server: TargetServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=dial_server.url, headers=HEADERS, trust_env=False, timeout=120) as client:
        yield client
    assert dial_server.process.poll() is None, "the server died"


def file_string() -> str:
    return json.dumps({"callable": b"\x80\x04cprocessor\nDeltaProcessor\n.".hex()})


Ask = tuple[Mapping[str, Any], str]
"""Parameters of a processor, and the string that names it."""


def all_answers(http: httpx.Client, asks: Sequence[Ask]) -> list[list[list[int]]]:
    """The answers to each, all at the same time: the server decodes them together."""
    with ThreadPoolExecutor(len(asks)) as pool:
        return list(pool.map(lambda ask: answers(http, *ask), asks))


def answers(http: httpx.Client, params: Mapping[str, Any], string: str) -> list[list[int]]:
    sampling = {"temperature": 0, "max_new_tokens": 12, "custom_params": params}
    body = {"input_ids": list(PROMPTS), "sampling_params": sampling, "custom_logit_processor": string}
    response = http.post("/generate", json=body)
    assert response.status_code == 200, response.text
    return [reply["output_ids"] for reply in response.json()]


def test_a_dials_answers_are_those_of_the_interpolated_deltas(dial_http: httpx.Client) -> None:
    deltas, dials, tokens, by_file, tokens_by_file = [
        all_answers(dial_http, asks)
        for asks in (
            [({"clustering": CLUSTERING, "deltas": list(DIAL.deltas_at(dial))}, reference_string()) for dial in DIALS],
            [({"front": DIAL.front, "dial": dial}, reference_string()) for dial in DIALS],
            [({"front": DIAL.front, "target_tokens": tokens_at(dial)}, reference_string()) for dial in DIALS],
            [({"dial": dial}, file_string()) for dial in DIALS],
            [({"target_tokens": tokens_at(dial)}, file_string()) for dial in DIALS],
        )
    ]
    # When the dial or its tokens are sent in place of the deltas, or to the file, then the answers are the same
    assert [DIAL.dial_of(tokens_at(dial)) for dial in DIALS] == pytest.approx(DIALS)
    assert deltas == dials == tokens == by_file == tokens_by_file
    # And these dials do not all give the same answers
    assert len({str(one) for one in deltas}) >= 4


def tokens_at(dial: float) -> float:
    return 80.0 - 60.0 * dial


def test_without_a_choice_the_winners_deltas_steer(dial_http: httpx.Client) -> None:
    sent = {"clustering": CLUSTERING, "deltas": list(DIAL.default)}
    expected, *found = all_answers(
        dial_http,
        [
            (sent, reference_string()),
            ({"front": DIAL.front}, reference_string()),
            ({}, file_string()),
            ({"dial": "fast"}, file_string()),
        ],
    )
    assert found == [expected] * 3


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"dial": 1.5}, "dial must be a number from 0 to 1, not 1.5"),
        ({"dial": -0.1}, "from 0 to 1"),
        ({"target_tokens": 0}, "target_tokens must be a number above 0"),
        ({"dial": 0.5, "target_tokens": 40}, "either dial or target_tokens"),
        ({"front": "ab" * 16}, "no front"),
    ],
)
def test_a_wrong_dial_is_refused_with_http_400(dial_http: httpx.Client, params: dict[str, Any], said: str) -> None:
    sampling = {"max_new_tokens": 2, "custom_params": {"front": DIAL.front, **params}}
    body = {"input_ids": [504], "sampling_params": sampling, "custom_logit_processor": reference_string()}
    response = dial_http.post("/generate", json=body)
    assert response.status_code == 400
    assert said in response.json()["error"]["message"]
