"""A collection is listed, retried from Flower and the command line, cancelled and deleted, as an evolution is."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from collection_folder import CollectionFolder
from flower_process import Flower, eventually
from run_folder import finish, orchestrator, wait_until

from tasks.store.address import queues_url, store_url
from tasks.store.client import connect

pytestmark = pytest.mark.long


@pytest.fixture
def farm(collection: CollectionFolder) -> Iterator[str]:
    """The address of a farm that stays up, whose endpoint fails one call of the reflector and one of the judge."""
    where = ("--config", "configs/embedded.config", "--set", f"FARM_DIR={collection.farm}")
    up = orchestrator("farm", "up", *where, "--set", "EMBEDDED_FAULTS=compression:quota:1,verdict:quota:1")
    assert up.returncode == 0, up.stdout
    try:
        yield str(json.loads(orchestrator("farm", "status", "--json", *where).stdout)["redis_url"])
    finally:
        down = orchestrator("farm", "down", *where)
    assert down.returncode == 0, down.stdout
    assert collection.processes() == []


def run_id(collection: CollectionFolder) -> str:
    return str(json.loads((collection.output / "run.json").read_text())["id"])


def failed(collection: CollectionFolder) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = json.loads(orchestrator("failed", str(collection.output), "--json").stdout)
    return listed


def test_what_fails_is_retried_from_flower_and_from_the_command_line(
    reference_collection: CollectionFolder, collection: CollectionFolder, farm: str
) -> None:
    # Given a collection that parked in the middle, because the reflector failed
    parked = collection.run()
    assert parked.returncode == 3, parked.stdout
    assert f"go on with: orchestrator retry {collection.output}" in parked.stdout
    [failure] = failed(collection)
    assert (failure["stage"], failure["record"], failure["run"]) == ("compress", "jobs", run_id(collection))
    assert str(failure["node"]).startswith("sample_id_")
    assert f"compress of {failure['node']}" in orchestrator("status", str(collection.output)).stdout
    listed = orchestrator("runs", str(collection.folder)).stdout.splitlines()[1].split()
    assert listed[:3] == [run_id(collection), "collect", "parked"]
    flower = Flower(farm, collection.folder, outputs=collection.output)
    try:
        shown = flower.run(run_id(collection))
        assert (shown["status"]["kind"], shown["state"]) == ("collect", "parked")
        assert [each["task"] for each in shown["failed"]] == [failure["task"]]
        # When Retry is pressed, then the collection continues until the judge fails
        pressed = flower.client.post(f"/run/retry/{run_id(collection)}")
        assert pressed.status_code == 303, pressed.text
        stages = lambda: [each["stage"] for each in failed(collection)]  # noqa: E731
        eventually(lambda: stages() == ["verdict"], "the retry has ended", 240)
        eventually(lambda: flower.run(run_id(collection))["state"] == "parked", "it is parked", 240)
        assert [each["stage"] for each in flower.run(run_id(collection))["failed"]] == ["verdict"]
    finally:
        assert flower.stop() == 0
    # When it is retried on the command line, by the name of the task, then it gives the same output
    [failure] = failed(collection)
    done = orchestrator("retry", str(collection.output), str(failure["node"]))
    assert done.returncode == 0, done.stdout
    assert collection.comparable() == reference_collection.comparable()
    assert collection.repeated() == []
    assert failed(collection) == []
    status = orchestrator("status", str(collection.output)).stdout
    assert "finished, 4 of 4 examples done" in status


def test_a_collection_is_cancelled_deleted_and_started_again(
    reference_collection: CollectionFolder, collection: CollectionFolder, farm: str
) -> None:
    # Given a running collection
    process = collection.start()
    wait_until(lambda: collection.answers() >= 2 or process.poll() is not None, "answers")
    # When it is cancelled, then it parks and its command ends
    cancelled = orchestrator("cancel", str(collection.output))
    assert cancelled.returncode == 0, cancelled.stdout
    done = finish(process)
    assert done.returncode == 3, done.stdout
    assert "cancelled by `orchestrator cancel`" in done.stdout
    # When it is deleted, then no key of it is left in the farm
    deleted = orchestrator("runs", "--delete", str(collection.output))
    assert deleted.returncode == 0, deleted.stdout
    for client in (connect(store_url(farm)), connect(queues_url(farm))):
        assert list(client.scan_iter(match=f"*{run_id(collection)}*", count=1000)) == []
    # When it is retried until both faults have happened, then it ends; a setting that alters no result may change
    for _ in range(3):
        done = orchestrator("retry", str(collection.output), "--set", "phase0.judge_concurrency=2")
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stdout
    assert collection.comparable() == reference_collection.comparable()
    refused = orchestrator("retry", str(collection.output), "--set", "seed=7")
    assert refused.returncode == 1
    assert "--set seed: it alters results" in refused.stdout


def test_a_budget_parks_a_collection_and_a_larger_one_lets_it_go_on(
    reference_collection: CollectionFolder, collection: CollectionFolder
) -> None:
    # Given a collection whose calls cost money, and a budget for some of them
    prices = ["--price-prompt", "1000", "--price-cached", "1000", "--price-completion", "0"]
    refused = collection.run("--budget", "1")
    assert (refused.returncode, "--budget: needs --price-prompt" in refused.stdout) == (1, True)
    parked = collection.run(*prices, "--budget", "1")
    # Then it parks before they cost more, and says what they have cost
    assert parked.returncode == 3, parked.stdout
    assert "cost: at most $1.00" in parked.stdout
    assert f"orchestrator retry {collection.output} --set farm.budget_usd=2" in parked.stdout
    status = json.loads(orchestrator("status", str(collection.output), "--json").stdout)
    assert 0 < status["cost_usd"] + status["unconfirmed_usd"] <= status["budget_usd"] == 1
    # When the budget is larger, then it ends, and no call was paid twice
    done = orchestrator("retry", str(collection.output), "--set", "farm.budget_usd=1000")
    assert done.returncode == 0, done.stdout
    assert collection.comparable() == reference_collection.comparable()
    assert collection.repeated() == []
    ended = json.loads(orchestrator("status", str(collection.output), "--json").stdout)
    assert status["cost_usd"] < ended["cost_usd"] <= 1000
