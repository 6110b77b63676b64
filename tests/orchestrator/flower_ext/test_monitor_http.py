"""Flower over HTTP, with a real worker whose real task fails: who is let in, and what Retry does."""

from __future__ import annotations

import json
import re
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from flower_process import Flower, cpu_worker, eventually, failing_score, parked_run

from tasks.store.address import queues_url, store_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.app import create_app


@dataclass(frozen=True)
class Scene:
    """Parked runs, one of them with its folder elsewhere, a failed task of each, and a Flower that has seen them."""

    flower: Flower
    store: Store
    outputs: Path
    tasks: dict[str, str]


@pytest.fixture(scope="module")
def scene(valkey_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("monitor")
    store = Store(connect(store_url(valkey_url)))
    store.redis.flushall()
    worker = cpu_worker(valkey_url, folder)
    flower = Flower(valkey_url, folder)
    try:
        tasks = {}
        for run in ("first", "second", "distant"):
            parked_run(folder / ("elsewhere" if run == "distant" else "outputs"), store, valkey_url, run)
            tasks[run] = failing_score(store, valkey_url, run)
        for run, task in tasks.items():
            eventually(lambda run=run: flower.run(run)["failed"], f"the task of {run} has failed")
            eventually(lambda task=task: state(flower, task) == "FAILURE", f"Flower has seen {task} fail")
        yield Scene(flower, store, folder / "outputs", tasks)
    finally:
        flower.stop()
        worker.stop(10)


def state(flower: Flower, task: str) -> str:
    found = flower.client.get(f"/api/task/info/{task}")
    return str(found.json()["state"]) if found.status_code == 200 else ""


@pytest.mark.parametrize("path", ["/", "/runs", "/tasks", "/workers", "/broker", "/metrics", "/api/runs", "/api/tasks"])
def test_a_page_is_for_those_who_have_the_password(scene: Scene, path: str) -> None:
    assert scene.flower.stranger.get(path).status_code == 401
    assert scene.flower.stranger.get(path, auth=("somebody", "a wrong password")).status_code == 401
    assert scene.flower.client.get(path).status_code == 200


def test_a_password_that_is_not_ascii_is_refused_without_a_trace(scene: Scene) -> None:
    sent = "Basic " + b64encode("somebody:größer".encode()).decode()
    refused = scene.flower.stranger.get("/runs", headers={"Authorization": sent})
    assert (refused.status_code, "Traceback" in refused.text) == (401, False)


@pytest.mark.parametrize("path", ["/runs", "/workers", "/tasks", "/healthcheck", "/static/js/flower.js"])
def test_a_page_runs_only_scripts_of_its_own(scene: Scene, path: str) -> None:
    """Each script in a page has the nonce of its reply, or an address on this server."""
    page = scene.flower.client.get(path)
    policy = page.headers["Content-Security-Policy"]
    nonce = re.search(r"script-src 'self' 'nonce-([\w-]+)';", policy)
    assert nonce and "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    if page.headers["Content-Type"].startswith("text/html"):
        scripts = re.findall(r"<script\b[^>]*>", page.text)
        assert all(" src=" in script or f'nonce="{nonce[1]}"' in script for script in scripts)
        assert not re.search(r"\son\w+=|javascript:", page.text)


def test_forged_events_leave_the_pages_as_they_were(scene: Scene, valkey_url: str) -> None:
    forged: list[dict[str, Any]] = [
        {"hostname": "forged@host", "freq": "often", "loadavg": "<script>"},
        {"hostname": "strange@host", "heartbeats": "x", "freq": 2},
        {"hostname": ["forged"]},
    ]
    with create_app({"WHETSTONE_REDIS_URL": valkey_url}) as app, app.events.default_dispatcher() as events:
        for fields in forged:
            events.hostname = fields.pop("hostname")
            events.send("worker-heartbeat", **fields)
    eventually(lambda: "strange@host" in scene.flower.client.get("/workers?json=1").text, "the events were seen")
    shown = scene.flower.client.get("/workers")
    assert shown.status_code == 200 and "forged@host" not in shown.text
    assert scene.flower.client.get("/metrics").status_code == 200


def test_health_is_for_everybody(scene: Scene) -> None:
    assert scene.flower.stranger.get("/healthcheck").text == "OK"


def test_a_task_says_where_it_belongs_and_what_its_run_has_cost(scene: Scene) -> None:
    row = scene.flower.row(scene.tasks["first"])
    assert (row["run"], row["generation"], row["individual"]) == ("first", "0", "individual 0")
    assert row["args"] == "run=first generation=0 individual=0 phase=pre attempt=1"
    eventually(lambda: scene.flower.row(scene.tasks["first"])["retry"] == "now", "Retry is offered")
    page = scene.flower.client.get(f"/task/{scene.tasks['first']}").text
    assert f'action="/task/retry/{scene.tasks["first"]}"' in page
    assert "$1.2500 for 7 calls" in page


def test_the_runs_are_listed_with_cost_and_failures(scene: Scene) -> None:
    told = scene.flower.run("second")
    assert told["state"] == "parked"
    assert (told["calls"], told["cost_usd"], told["may_retry"]) == (7, 1.25, True)
    [failed] = told["failed"]
    assert (failed["task"], failed["stage"], failed["node"]) == (scene.tasks["second"], "score", "g0_pop0")
    page = scene.flower.client.get("/runs").text
    assert 'data-run="second" data-state="parked"' in page
    assert "$1.2500" in page
    assert "score of g0_pop0" in page


@pytest.mark.parametrize("path", ["/api/task/retry/", "/task/retry/", "/api/run/retry/", "/run/retry/"])
def test_what_nobody_knows_is_not_found(scene: Scene, path: str) -> None:
    answer = scene.flower.client.post(f"{path}nothing")
    assert answer.status_code == 404
    assert "nothing is known here" in answer.text


@pytest.mark.parametrize("path", ["/api/task/retry/{}", "/task/retry/{}"])
def test_retry_is_for_those_who_have_the_password_and_is_a_post(scene: Scene, path: str) -> None:
    address = path.format(scene.tasks["first"])
    assert scene.flower.stranger.post(address).status_code == 401
    for method in ("GET", "PUT", "DELETE"):
        assert scene.flower.client.request(method, address).status_code == 405
    assert scene.flower.run("first")["retry"] is None


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://elsewhere.example"}])
def test_the_page_of_another_site_cannot_retry(scene: Scene, headers: dict[str, str]) -> None:
    for path in ("/api/task/retry/{}", "/task/retry/{}"):
        answer = scene.flower.client.post(path.format(scene.tasks["first"]), headers=headers)
        assert answer.status_code == 403
    assert scene.flower.run("first")["retry"] is None


def test_flower_itself_sends_and_changes_nothing(scene: Scene) -> None:
    for address in ("/api/task/send-task/cpu.score", "/api/task/apply/cpu.score", "/api/task/async-apply/cpu.score"):
        assert scene.flower.client.post(address, json={"args": []}).status_code == 404
    for address in ("/api/worker/shutdown/cpu", f"/api/task/revoke/{scene.tasks['first']}"):
        assert scene.flower.client.post(address).status_code == 403


def test_a_run_that_is_not_parked_is_refused(scene: Scene) -> None:
    (scene.outputs / "second" / "answers.json").write_text("[]")
    try:
        answer = scene.flower.client.post(f"/api/task/retry/{scene.tasks['second']}")
        assert (answer.status_code, answer.text) == (409, "run second is finished")
    finally:
        (scene.outputs / "second" / "answers.json").unlink()


def test_retry_goes_on_with_the_run_and_sends_no_message_again(scene: Scene) -> None:
    """The run's own retry is a process that holds the run's folder; with Flower it ends, and the history stays."""
    flower, task = scene.flower, scene.tasks["first"]
    accepted = flower.client.post(f"/api/task/retry/{task}")
    assert (accepted.status_code, accepted.json()) == (202, {"run": "first", "retry": "started"})
    eventually(lambda: flower.run("first")["state"] == "running", "the run is at work")
    driver = next(p for p in psutil.Process(flower.process.pid).children(recursive=True) if "retry" in p.cmdline())
    assert driver.cmdline()[-3:] == ["retry", str(scene.outputs / "first"), "--plain"]
    assert "FLOWER_BASIC_AUTH" not in driver.environ()

    again = flower.client.post(f"/task/retry/{task}")
    assert again.status_code == 409
    assert "run first is being retried from here already" in again.text
    assert scene.store.attempt("first", "g0_pop") == 1, "what failed was not sent again behind the run's back"

    assert flower.stop() == 0
    assert not driver.is_running()
    flower.start()
    assert state(flower, task) == "FAILURE"
    assert flower.run("first")["state"] in ("parked", "stopped")


def test_a_run_that_is_driven_elsewhere_finds_its_failed_candidate_dispatched(scene: Scene, valkey_url: str) -> None:
    flower, task = scene.flower, scene.tasks["distant"]
    assert flower.run("distant")["state"] == "elsewhere"
    assert flower.client.post(f"/api/task/retry/{task}").status_code == 202
    [message] = [json.loads(text)["headers"] for text in connect(queues_url(valkey_url)).lrange("gpu", 0, 0)]
    assert message["task"] == "gpu.answer", "all that the candidate misses, from its first stage on"
    assert message["argsrepr"] == "run=distant generation=0 individual=0 phase=pre attempt=1"
    again = flower.client.post(f"/api/task/retry/{task}")
    assert (again.status_code, again.text) == (
        409,
        f"task {task} has been retried already; run distant has gone on since",
    )
    assert flower.row(task)["retry"] == "retried since"


def test_a_button_shows_the_runs(scene: Scene) -> None:
    pressed = scene.flower.client.post("/run/retry/second", headers={"Origin": scene.flower.url})
    assert (pressed.status_code, pressed.headers["location"]) == (303, "/runs")
    eventually(lambda: scene.flower.run("second")["retry"]["at_work"], "the run is at work")
    assert "retried from here, at work" in scene.flower.client.get("/runs").text


def test_guessing_passwords_is_limited(scene: Scene) -> None:
    """The last test that needs the pages: this address then has to wait."""
    answers = [scene.flower.stranger.get("/runs", auth=("somebody", f"guess {number}")) for number in range(24)]
    assert [answer.status_code for answer in answers[-2:]] == [429, 429]
    assert "too many wrong passwords; try again in" in answers[-1].text
    assert scene.flower.client.get("/api/runs").status_code == 429
    assert scene.flower.stranger.get("/healthcheck").status_code == 200


def test_a_port_that_is_taken_is_told_in_one_line(scene: Scene, tmp_path: Path) -> None:
    from flower_process import command, environment

    port = scene.flower.url.rsplit(":", 1)[1]
    done = subprocess.run(
        [*command(), "--port", port, "--data", str(tmp_path / "data")],
        env={**environment(), "WHETSTONE_REDIS_URL": "redis://127.0.0.1:1/0", "FLOWER_BASIC_AUTH": "ann:longenough"},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert f"127.0.0.1:{port}: Address already in use" in done.stderr
    assert "Traceback" not in done.stderr
