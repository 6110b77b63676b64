"""The socket of a farm's endpoint: the program's own client calls over it, and nobody else may connect."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from other_user import as_another_user, needs_root

from tasks.http.address import unix_url
from tasks.models import Endpoint, Judge
from tasks.openai.budget import LocalBudget
from tasks.openai.calls import ReplyCounter
from tasks.openai.client import OpenAIClient
from tasks.openai.judge import verdict_record
from tasks.openai.limits import LocalLimiter
from workers.embedded.endpoint import ENDPOINT_KEY_VARIABLE, ENDPOINT_SOCKET
from workers.embedded.sockets import farm_socket, listen_privately, remove_farm_socket

KEY = "key-for-tests-0123456789"
SETTINGS = Judge("some-model", 0.01, True, 0.0, 1.0, 512, 42, concurrency=1)
ROW = ("Did sales grow?", "Yes, they grew.", "They did grow, yes.")


def serve(listener: socket.socket) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "workers.embedded.endpoint", "--fd", str(listener.fileno())]
    return subprocess.Popen(
        command, env={**os.environ, ENDPOINT_KEY_VARIABLE: KEY}, pass_fds=(listener.fileno(),), stdout=subprocess.PIPE
    )


def test_the_endpoint_answers_over_its_socket_also_when_it_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_OF_THIS_TEST", KEY)
    path = farm_socket(ENDPOINT_SOCKET, tmp_path)
    with listen_privately(path) as listener:
        endpoint = Endpoint(unix_url(path), "KEY_OF_THIS_TEST", 30.0, 1, 0, 0, 0.0, 0.0, 0.0, 0.0)
        client = OpenAIClient(endpoint, LocalLimiter(0, 0), LocalBudget(endpoint))
        for number in range(2):
            # Given an endpoint that is being started, when it is called, then the call waits and is answered
            with serve(listener) as process:
                assert verdict_record(client, SETTINGS, f"call-{number}", ROW, ReplyCounter())["is_correct"] is True
                process.kill()
    remove_farm_socket(ENDPOINT_SOCKET, tmp_path)
    assert not path.exists()


@needs_root
def test_another_user_cannot_connect(tmp_path: Path) -> None:
    path = farm_socket(ENDPOINT_SOCKET, tmp_path)
    with listen_privately(path):
        assert socket.socket(socket.AF_UNIX).connect_ex(str(path)) == 0
        assert as_another_user(lambda: socket.socket(socket.AF_UNIX).connect_ex(str(path))) != 0
    remove_farm_socket(ENDPOINT_SOCKET, tmp_path)


def test_what_a_killed_farm_left_there_is_replaced(tmp_path: Path) -> None:
    path = farm_socket(ENDPOINT_SOCKET, tmp_path)
    listen_privately(path).close()
    with listen_privately(path), socket.socket(socket.AF_UNIX) as client:
        assert client.connect_ex(str(path)) == 0
    remove_farm_socket(ENDPOINT_SOCKET, tmp_path)
