"""Each check says what it saw, and how to mend what is wrong."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

from farm_bench import RefusingValkey
from http_thread import http_server

from orchestrator.farm import checks
from tasks.store.workers import code_version


class ModelsOnly(BaseHTTPRequestHandler):
    """Lists models to whoever has the right key, as an endpoint does."""

    def do_GET(self) -> None:
        is_known = self.path.partition("?")[0] == "/v1/models"
        self.send_response(404 if not is_known else 200 if self.headers["Authorization"] == "Bearer right" else 401)
        self.end_headers()


def report(queue: str = "gpu", **more: object) -> dict[str, object]:
    return {"worker": f"{queue}@there", "queue": queue, "state": "ready", "why": "", "version": code_version(), **more}


def test_workers_must_be_ready_have_our_code_and_our_time_and_room() -> None:
    for state, hint in (("paused", "farm workers --resume"), ("refusing", "see its reason"), ("silent", "see its log")):
        found = checks.check_queue("gpu", [report(state=state, why="another model")], 3, {})
        assert not found.ok and hint in found.hint
        assert checks.check_queue("gpu", [report(state=state), report()], 3, {}).ok
    assert checks.check_versions([report()]).ok
    found = checks.check_versions([report(), report("cpu", version="0123456789ab")])
    assert not found.ok and "cpu@there has 0123456789ab" in found.message
    assert checks.check_clock("there", 0.9).ok and not checks.check_clock("there", -2.0).ok
    assert checks.check_disk("disk", 2e9).ok and not checks.check_disk("disk", 2e8).ok


def test_a_broker_that_may_lose_data_is_wrong() -> None:
    well = {"aof_enabled": 1, "maxmemory_policy": "noeviction", "used_memory": 10, "maxmemory": 100}
    for changes, wrong in (
        ({}, []),
        ({"aof_enabled": 0}, ["kept data"]),
        ({"aof_last_write_status": "err"}, ["kept data"]),
        ({"maxmemory_policy": "volatile-lru"}, ["memory"]),
        ({"maxmemory": 0}, ["memory"]),
        ({"maxmemory": 11}, ["memory"]),
    ):
        assert [one.check for one in checks.check_persistence({**well, **changes}) if not one.ok] == wrong


def test_an_endpoint_answers_or_refuses_the_key() -> None:
    with http_server(ModelsOnly) as url:
        for found in (
            checks.check_endpoint(f"{url}/v1", "right"),
            checks.check_endpoint(f"{url}/v1?api-version=2024-10-21", "right"),
            checks.check_endpoint(f"{url}/v1", ""),  # the workers have the key, and we have not
        ):
            assert found.ok, found
        assert "refuses the key (HTTP 401)" in checks.check_endpoint(f"{url}/v1", "wrong").message
        assert "end with /v1" in checks.check_endpoint(url, "right").hint
    gone = checks.check_endpoint(f"{url}/v1", "right")
    assert not gone.ok and "does not answer" in gone.message


def test_a_store_that_refuses_writes_is_wrong(refusing_valkey: RefusingValkey) -> None:
    assert checks.check_writes(refusing_valkey.url).ok
    with refusing_valkey.replica():
        found = checks.check_writes(refusing_valkey.url)
    assert not found.ok and "READONLY" in found.message
