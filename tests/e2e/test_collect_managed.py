"""A collection is managed as an evolution is: listed, retried from Flower and the command line, cancelled, deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from collecting import Collecting
from flower_process import Flower, eventually
from workplace import finish, orchestrator, wait_until

from tasks.store.address import queues_url, store_url
from tasks.store.client import connect

pytestmark = pytest.mark.long


@pytest.fixture
def farm(place: Collecting) -> Iterator[str]:
    """A farm that stays, whose endpoint fails once for the reflector and then once for the judge; its address."""
    where = ("--config", "configs/embedded.config", "--set", f"FARM_DIR={place.farm}")
    up = orchestrator("farm", "up", *where, "--set", "EMBEDDED_FAULTS=compression:quota:1,verdict:quota:1")
    assert up.returncode == 0, up.stdout
    try:
        yield str(json.loads(orchestrator("farm", "status", "--json", *where).stdout)["redis_url"])
    finally:
        down = orchestrator("farm", "down", *where)
    assert down.returncode == 0, down.stdout
    assert place.processes() == []


def run_id(place: Collecting) -> str:
    return str(json.loads((place.output / "run.json").read_text())["id"])


def failed(place: Collecting) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = json.loads(orchestrator("failed", str(place.output), "--json").stdout)
    return listed


def test_what_fails_is_retried_from_flower_and_from_the_command_line(
    collected: Collecting, place: Collecting, farm: str
) -> None:
    # Given a collection that parked in the middle, because the reflector failed
    parked = place.run()
    assert parked.returncode == 3, parked.stdout
    assert f"go on with: orchestrator retry {place.output}" in parked.stdout
    [failure] = failed(place)
    assert (failure["stage"], failure["record"], failure["run"]) == ("compress", "jobs", run_id(place))
    assert str(failure["node"]).startswith("sample_id_")
    assert f"compress of {failure['node']}" in orchestrator("status", str(place.output)).stdout
    listed = orchestrator("runs", str(place.folder)).stdout.splitlines()[1].split()
    assert listed[:3] == [run_id(place), "collect", "parked"]
    flower = Flower(farm, place.folder, outputs=place.output)
    try:
        shown = flower.run(run_id(place))
        assert (shown["kind"], shown["state"], shown["may_retry"]) == ("collect", "parked", True)
        assert [each["task"] for each in shown["failed"]] == [failure["task"]]
        # When Retry is pressed, then the collection goes on, until the judge fails
        pressed = flower.client.post(f"/api/run/retry/{run_id(place)}")
        assert pressed.status_code == 202, pressed.text
        eventually(lambda: flower.run(run_id(place))["retry"]["ended"], "the retry has ended", 240)
        assert flower.run(run_id(place))["state"] == "parked"
        assert [each["stage"] for each in flower.run(run_id(place))["failed"]] == ["verdict"]
    finally:
        assert flower.stop() == 0
    # When it is retried on the command line, by the name of the task, then it ends as if nothing had failed
    [failure] = failed(place)
    done = orchestrator("retry", str(place.output), str(failure["node"]))
    assert done.returncode == 0, done.stdout
    assert place.lasting() == collected.lasting()
    assert place.repeated() == []
    assert failed(place) == []
    status = orchestrator("status", str(place.output)).stdout
    assert "finished, 4 of 4 examples done" in status


def test_a_collection_is_cancelled_deleted_and_goes_on(collected: Collecting, place: Collecting, farm: str) -> None:
    # Given a collection at work
    process = place.start()
    wait_until(lambda: place.answers() >= 2 or process.poll() is not None, "answers")
    # When it is cancelled, then it parks, and nothing works on it any more
    cancelled = orchestrator("cancel", str(place.output))
    assert cancelled.returncode == 0, cancelled.stdout
    done = finish(process)
    assert done.returncode == 3, done.stdout
    assert "cancelled by `orchestrator cancel`" in done.stdout
    # When it is deleted, then its farm knows nothing of it
    deleted = orchestrator("runs", "--delete", str(place.output))
    assert deleted.returncode == 0, deleted.stdout
    for client in (connect(store_url(farm)), connect(queues_url(farm))):
        assert list(client.scan_iter(match=f"*{run_id(place)}*", count=1000)) == []
    # When it is retried until the two faults are over, then it ends, with another setting that alters no result
    for _ in range(3):
        done = orchestrator("retry", str(place.output), "--set", "phase0.judge_concurrency=2")
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stdout
    assert place.lasting() == collected.lasting()
    refused = orchestrator("retry", str(place.output), "--set", "seed=7")
    assert refused.returncode == 1
    assert "--set seed: it alters results" in refused.stdout
