"""A target that is served by tiny_server.py."""

import dataclasses
import sys
from pathlib import Path

import httpx
import psutil
from simulated_run import RUN

from tasks.common.files import unix_path
from tasks.common.http import http_url
from tasks.gpu.host import TargetHost
from tasks.records import Sampling, Target
from workers.sglang.host import LocalTargetHost

TINY_SERVER = f"{sys.executable} {Path(__file__).with_name('tiny_server.py')}"


def server_reply(host: TargetHost, target: Target, path: str = "/server_info") -> dict[str, object]:
    """The server's reply to a GET request with its key, as JSON."""
    http = http_client(host.serve(target))
    answer: dict[str, object] = http.get(path, headers={"Authorization": f"Bearer {host.api_key(target)}"}).json()
    return answer


def server_process(host: LocalTargetHost) -> psutil.Process:
    """The process of the server that this host has started: what it was started with, and whether it was replaced."""
    server = host._server
    assert server is not None and server._process is not None and server._process.pid is not None
    return psutil.Process(server._process.pid)


def http_client(url: str, timeout: float = 5.0) -> httpx.Client:
    """A client for a server at a port or on a Unix socket."""
    path = unix_path(url)
    transport = httpx.HTTPTransport(uds=path) if path else None
    return httpx.Client(base_url=http_url(url, ""), transport=transport, trust_env=False, timeout=timeout)


def server_target(command: str = TINY_SERVER, args: str = "", url: str = "", ready_timeout_s: float = 30) -> Target:
    return dataclasses.replace(
        RUN.target, command=command, args=args, url=url, ready_timeout_s=ready_timeout_s, model="some/model",
        engine="sglang", request_timeout_s=10, prompt_template="{context}{query}", sampling=Sampling(8, 0.0, 1.0, 0),
    )  # fmt: skip
