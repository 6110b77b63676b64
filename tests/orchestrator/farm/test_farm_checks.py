"""Each check says what it saw, and how to mend what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest
from http_thread import http_server
from refusing_valkey import RefusingValkey

from orchestrator.farm.checks import (
    check_clock,
    check_disk,
    check_endpoint,
    check_persistence,
    check_queue,
    check_versions,
    check_writes,
)
from tasks.store.workers import code_version

WELL = {"aof_enabled": 1, "maxmemory_policy": "noeviction", "used_memory": 10, "maxmemory": 100}


class ModelsOnly(BaseHTTPRequestHandler):
    """Lists models to whoever has the right key, as an endpoint does."""

    def do_GET(self) -> None:
        is_known = self.path.partition("?")[0] == "/v1/models"
        self.send_response(404 if not is_known else 200 if self.headers["Authorization"] == "Bearer right" else 401)
        self.end_headers()


@pytest.fixture
def endpoint() -> Iterator[str]:
    with http_server(ModelsOnly) as url:
        yield f"{url}/v1"


def report(queue: str = "gpu", **more: object) -> dict[str, object]:
    own = {"worker": f"{queue}@there", "queue": queue, "host": "there", "state": "ready", "why": ""}
    return {**own, "version": code_version(), "disk_free": 5e9, "clock_offset_s": 0.0, "tasks": [], **more}


@pytest.mark.parametrize(
    ("state", "hint"),
    [("paused", "orchestrator farm workers --resume"), ("refusing", "see its reason"), ("silent", "see its log")],
)
def test_a_queue_without_a_ready_worker_is_wrong(state: str, hint: str) -> None:
    found = check_queue("gpu", [report(state=state, why="another model")], 3, {})
    assert not found.ok
    assert hint in found.hint
    assert check_queue("gpu", [report(state=state), report()], 3, {}).ok


def test_other_code_is_named_with_its_worker() -> None:
    assert check_versions([report()]).ok
    found = check_versions([report(), report("cpu", version="0123456789ab")])
    assert not found.ok
    assert "cpu@there has 0123456789ab" in found.message


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"aof_enabled": 0}, "kept data"),
        ({"aof_last_write_status": "err"}, "kept data"),
        ({"maxmemory_policy": "allkeys-lru"}, "memory"),
        ({"maxmemory_policy": "volatile-lru"}, "memory"),
        ({"maxmemory": 0}, "memory"),
        ({"maxmemory": 11, "used_memory": 10}, "memory"),
    ],
)
def test_a_broker_that_may_lose_data_is_wrong(changes: dict[str, object], check: str) -> None:
    assert all(finding.ok for finding in check_persistence(WELL))
    wrong = [finding for finding in check_persistence({**WELL, **changes}) if not finding.ok]
    assert [finding.check for finding in wrong] == [check]
    assert wrong[0].hint


def test_clocks_and_disks_have_limits() -> None:
    assert check_clock("there", 0.9).ok
    found = check_clock("there", -2.0)
    assert (found.ok, found.message) == (False, "there: 2.00 s behind the broker's")
    assert check_disk("disk", 2e9).ok
    assert not check_disk("disk", 2e8).ok


def test_an_endpoint_answers_or_refuses_the_key(endpoint: str) -> None:
    assert check_endpoint(endpoint, "right").ok
    refused = check_endpoint(endpoint, "wrong")
    assert (refused.ok, "refuses the key (HTTP 401)" in refused.message) == (False, True)
    assert check_endpoint(endpoint, "").ok  # the workers have the key, and we have not
    assert check_endpoint(f"{endpoint}?api-version=2024-10-21", "right").ok
    assert "end with /v1" in check_endpoint(endpoint.removesuffix("/v1"), "right").hint
    gone = check_endpoint("http://127.0.0.1:1/v1", "right")
    assert (gone.ok, "does not answer" in gone.message) == (False, True)


def test_a_store_that_refuses_writes_is_wrong(refusing_valkey: RefusingValkey) -> None:
    assert check_writes(refusing_valkey.url).ok
    with refusing_valkey.replica():
        found = check_writes(refusing_valkey.url)
    assert not found.ok and "READONLY" in found.message
