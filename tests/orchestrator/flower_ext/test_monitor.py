"""Flower over HTTP, with real workers whose tasks fail: who is let in, and what Retry does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from farm_bench import Bench, until
from simulated_run import PLAN, RUN, Driver

from orchestrator.settings.kconfig import load_settings, write_config
from orchestrator.settings.run import make_run
from tasks.plan import Candidate, Plan
from tasks.records import Failure
from tasks.store.address import queues_url, store_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.app import create_app
from workers.processes import ChildProcess, Command
from workers.queues import worker_command

ROOT = Path(__file__).parents[3]
LOGIN = ("somebody", "a long password")
COMMAND = [sys.executable, "-m", "orchestrator", "flower"]


class Flower:
    """`orchestrator flower` on a port of its own; `client` is logged in."""

    def __init__(self, redis_url: str, folder: Path) -> None:
        self.redis_url, self.folder = redis_url, folder
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "--port", "0", "--outputs", str(self.folder / "outputs"), "--data", str(self.folder / "data")],
            env={**environment(), "WHETSTONE_REDIS_URL": self.redis_url, "FLOWER_BASIC_AUTH": ":".join(LOGIN)},
            cwd=ROOT, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), self.url
        self.client = httpx.Client(base_url=self.url, auth=LOGIN)
        self.stranger = httpx.Client(base_url=self.url)

    def stop(self) -> int:
        self.client.close()
        self.stranger.close()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def run(self, run: str) -> dict[str, Any]:
        """What the API says of a run."""
        found: list[dict[str, Any]] = self.client.get("/api/runs").json()["runs"]
        return next(each for each in found if each["run"] == run)

    def row(self, task: str) -> dict[str, Any]:
        """What the list of tasks shows of one."""
        asked = {"draw": 1, "start": 0, "length": 100, "order[0][column]": 0, "order[0][dir]": "asc"}
        asked |= {"columns[0][data]": "name", "search[value]": ""}
        rows: list[dict[str, Any]] = self.client.post("/tasks/datatable", data=asked).json()["data"]
        return next(row for row in rows if row["uuid"] == task)


def environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("FLOWER_", "WHETSTONE_", "OPENAI_"))}


def cpu_worker(redis_url: str, folder: Path) -> ChildProcess:
    """A worker of the cpu queue; what it is sent waits until it is there."""
    own = {**environment(), "WHETSTONE_REDIS_URL": redis_url}
    worker = ChildProcess(Command("cpu", tuple(worker_command("cpu", "cpu", 1)), folder / "cpu.log", own))
    worker.start()
    return worker


def parked_run(outputs: Path, store: Store, redis_url: str, run: str) -> None:
    """A run that a person would find parked: its folder, its settings, and its plan in the store."""
    folder = outputs / run
    folder.mkdir(parents=True, exist_ok=True)
    settings = load_settings(ROOT / "configs" / "embedded.config", [f"OUTPUT_DIR={folder}", f"FARM={redis_url}"])
    write_config(settings, folder / "config")
    (folder / "run.json").write_text(f'{{"id": "{run}", "kind": "evolve"}}')
    (folder / "parked.json").write_text('{"reason": "score of g0_pop0 failed", "failures": []}')
    store.put_run(make_run(settings, run))
    store.put_plan(run, Plan("population", 0, (Candidate(0, (0.0,) * 12),)))
    store.restore_usage(run, {"requests": 7, "cost_usd": 1.25})


def failing_score(store: Store, redis_url: str, run: str) -> str:
    """Send a score whose answers are not there, which a worker cannot but fail; returns its id."""
    attempt = store.next_attempt(run, "g0_pop")
    with create_app({"WHETSTONE_REDIS_URL": redis_url}) as app:
        return str(app.send_task("cpu.score", args=[run, "g0_pop", 0, "pre", attempt]).id)


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
        until(lambda: all(flower.run(run)["failed"] for run in tasks))
        until(lambda: {state(flower, task) for task in tasks.values()} == {"FAILURE"})
        yield Scene(flower, store, folder / "outputs", tasks)
    finally:
        flower.stop()
        worker.stop(10)


def state(flower: Flower, task: str) -> str:
    found = flower.client.get(f"/api/task/info/{task}")
    return str(found.json()["state"]) if found.status_code == 200 else ""


def test_a_page_is_for_those_who_have_the_password(scene: Scene) -> None:
    for path in ("/", "/runs", "/tasks", "/workers", "/broker", "/metrics", "/api/runs", "/api/tasks"):
        assert scene.flower.stranger.get(path).status_code == 401
        assert scene.flower.stranger.get(path, auth=("somebody", "a wrong password")).status_code == 401
        assert scene.flower.client.get(path).status_code == 200


def test_tasks_and_runs_are_listed_with_where_they_belong_cost_and_failures(scene: Scene) -> None:
    task = scene.tasks["second"]
    row = scene.flower.row(task)
    assert (row["run"], row["generation"], row["individual"]) == ("second", "0", "g0_pop0")
    assert f'action="/task/retry/{task}"' in scene.flower.client.get(f"/task/{task}").text
    told = scene.flower.run("second")
    assert (told["state"], told["usage"]["requests"], told["usage"]["cost_usd"]) == ("parked", 7, 1.25)
    [failed] = told["failed"]
    assert (failed["task"], failed["stage"], failed["node"]) == (task, "score", "g0_pop0")
    page = scene.flower.client.get("/runs").text
    assert 'data-run="second" data-state="parked"' in page and "$1.2500" in page and "score of g0_pop0" in page


def test_retry_is_a_post_of_this_site_with_the_password_and_flower_itself_changes_nothing(scene: Scene) -> None:
    address, client = f"/task/retry/{scene.tasks['first']}", scene.flower.client
    assert scene.flower.stranger.post(address).status_code == 401
    assert client.get(address).status_code == 405
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://elsewhere.example"}):
        assert client.post(address, headers=headers).status_code == 403
    for path in ("/task/retry/nothing", "/run/retry/nothing"):
        assert client.post(path).status_code == 404
    for path in ("/api/task/send-task/cpu.score", "/api/task/apply/cpu.score", "/api/task/async-apply/cpu.score"):
        assert client.post(path, json={"args": []}).status_code == 404
    for path in ("/api/worker/shutdown/cpu", f"/api/task/revoke/{scene.tasks['first']}"):
        assert client.post(path).status_code == 403
    # And a run that is finished is not started again
    (scene.outputs / "second" / "answers.json").write_text("[]")
    answer = client.post(f"/task/retry/{scene.tasks['second']}")
    (scene.outputs / "second" / "answers.json").unlink()
    assert answer.status_code == 409 and "run second is finished" in answer.text
    assert scene.flower.run("first")["state"] == "parked"


def test_retry_of_a_parked_run_starts_its_driver(scene: Scene) -> None:
    pressed = scene.flower.client.post(f"/task/retry/{scene.tasks['first']}", headers={"Origin": scene.flower.url})
    assert (pressed.status_code, pressed.headers["location"]) == (303, "/runs")
    until(lambda: scene.flower.run("first")["state"] == "running")
    driver = next(p for p in psutil.Process(scene.flower.process.pid).children() if "retry" in p.cmdline())
    try:
        assert driver.cmdline()[-3:] == ["retry", str(scene.outputs / "first"), "--plain"]
        assert "FLOWER_BASIC_AUTH" not in driver.environ()
    finally:
        driver.terminate()
        until(lambda: scene.flower.run("first")["state"] != "running")


def test_a_run_that_is_driven_elsewhere_finds_its_failed_candidate_dispatched(scene: Scene, valkey_url: str) -> None:
    flower, task = scene.flower, scene.tasks["distant"]
    assert flower.run("distant")["state"] == "elsewhere"
    assert flower.client.post(f"/task/retry/{task}").status_code == 303
    messages = [json.loads(text)["headers"] for text in connect(queues_url(valkey_url)).lrange("gpu", 0, -1)]
    [message] = [one for one in messages if one["argsrepr"].startswith("run=distant ")]
    assert message["task"] == "gpu.answer", "all that the candidate misses, from its first stage on"
    assert flower.client.post(f"/task/retry/{task}").status_code == 409


def test_a_failed_task_that_flower_has_not_seen_is_shown_from_the_store(scene: Scene) -> None:
    task = scene.tasks["second"]
    [failed] = scene.flower.run("second")["failed"]
    unseen = Failure(**{**failed, "task": "not-seen-by-flower", "name": "7"})
    scene.store.put_failure(unseen)
    page = scene.flower.client.get(f"/task/{unseen.task}")
    assert (page.status_code, scene.flower.client.get("/task/nothing").status_code) == (200, 404)
    assert f'action="/task/retry/{unseen.task}"' in page.text and "second" in page.text and task not in page.text
    scene.store.forget_failure(unseen)


def test_the_history_is_there_after_a_restart(scene: Scene) -> None:
    assert scene.flower.stop() == 0
    scene.flower.start()
    assert state(scene.flower, scene.tasks["first"]) == "FAILURE"


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"FLOWER_BASIC_AUTH": "admin"}, 1),
        ({"FLOWER_BASIC_AUTH": "ann:longenough", "WHETSTONE_REDIS_URL": "http://x"}, 1),
        ({"FLOWER_BASIC_AUTH": "ann:longenough"}, 2),
    ],
)
def test_without_a_password_an_address_or_a_history_of_its_own_it_does_not_start(
    valkey_url: str, tmp_path: Path, given: dict[str, str], status: int
) -> None:
    (tmp_path / "history.dat").write_bytes(b"a pickle")
    (tmp_path / "history.dat").chmod(0o666)  # another user could have written it
    own = {**environment(), "WHETSTONE_REDIS_URL": valkey_url, **given}
    started = [*COMMAND, "--port", "0", "--data", str(tmp_path)]
    done = subprocess.run(started, env=own, check=False, capture_output=True, text=True)
    assert (done.returncode, len(done.stderr.splitlines())) == (status, 1), done.stderr
    assert ("history.dat" in done.stderr) == (status == 2)


def test_the_button_of_a_red_task_ends_a_waiting_run_as_if_nothing_had_failed(
    driver: Driver, simulated_farm: Bench, tmp_path: Path
) -> None:
    node, flower = PLAN.node(1, "mut"), Flower(simulated_farm.url, tmp_path)
    try:
        # Given a run that waits with a failed reflector, red in Flower's list
        driver.set_signal("fail", "reflect", node)
        waiting = driver.evaluate(retry_wait_s=60)
        until(lambda: flower.run(RUN.id)["failed"])
        [failed] = flower.run(RUN.id)["failed"]
        until(lambda: state(flower, failed["task"]) == "FAILURE")
        # When what made it fail is mended and the button is pressed
        driver.clear_signal("fail", "reflect", node)
        pressed = flower.client.post(f"/task/retry/{failed['task']}", headers={"Origin": flower.url})
        assert (pressed.status_code, pressed.headers["location"]) == (303, "/runs")
        # Then the run has what an undisturbed one has, and nothing was done twice
        assert [outcome.delta for outcome in waiting.result(timeout=60)] == [0.25] * 3
        assert [driver.began("reflect", PLAN.node(i, "mut")) for i in range(3)] == [1, 2, 1]
        assert [driver.began("answer", PLAN.node(i, "pre")) for i in range(3)] == [1, 1, 1]
        assert flower.run(RUN.id)["failed"] == []
    finally:
        flower.stop()
