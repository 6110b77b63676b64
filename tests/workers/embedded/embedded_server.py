"""Start the embedded target as a real process, and what its tests agree upon."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tasks.gpu.target import PROCESSOR

CLUSTERING = "c0ffee" * 4
CLUSTERS = 6
KEY = "the-key-of-the-tests"
HEADERS = {"Authorization": f"Bearer {KEY}"}


def steered_body(deltas: list[float], **sampling: Any) -> dict[str, Any]:
    """The body of a request whose deltas, one of each cluster, steer a short greedy answer."""
    params = {"clustering": CLUSTERING, "deltas": deltas}
    return {
        "input_ids": [504, 3575, 282],
        "sampling_params": {"temperature": 0, "max_new_tokens": 6, "custom_params": params, **sampling},
        "custom_logit_processor": PROCESSOR,
    }


@dataclass(frozen=True)
class TargetServer:
    url: str
    process: subprocess.Popen[bytes]


@contextmanager
def serving(model: Path, labels: Path) -> Iterator[TargetServer]:
    """A ready server; it is gone afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "workers.embedded.target", "--model", model, "--port", port]
    command += ["--labels", labels]
    process = subprocess.Popen([str(word) for word in command], env={**os.environ, "WHETSTONE_TARGET_KEY": KEY})
    try:
        yield TargetServer(_ready(f"http://127.0.0.1:{port}", process), process)
    finally:
        process.terminate()
        process.wait(timeout=60)


def _ready(url: str, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + 120
    with httpx.Client(trust_env=False, transport=httpx.HTTPTransport(retries=3)) as http:
        while time.monotonic() < deadline:
            assert process.poll() is None, "the target server ended while it started"
            try:
                if http.get(f"{url}/health", timeout=5).status_code == 200:
                    return url
            except httpx.ConnectError:
                continue  # retries inside the transport back off
    raise AssertionError("the target server did not become ready")
