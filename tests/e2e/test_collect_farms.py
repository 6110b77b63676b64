"""A collection on a farm that it did not start: one that stays up, and workers started one by one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from collection_folder import CollectionFolder
from run_folder import ROOT, environment, orchestrator, wait_until

from tasks.queues import QUEUES
from tasks.store.address import ENVIRONMENT_VARIABLE
from workers.embedded import valkey
from workers.embedded.endpoint import ENDPOINT_KEY_VARIABLE
from workers.embedded.farm import FARM_VARIABLE
from workers.health import worker_answers
from workers.queues import worker_command

pytestmark = pytest.mark.long
KEY_VARIABLE = "SOME_KEY"


def test_a_farm_that_stays_up_is_used_and_makes_no_call_twice(
    reference_collection: CollectionFolder, collection: CollectionFolder
) -> None:
    # given a farm that is up
    farm = ["--config", str(ROOT / "configs" / "embedded.config"), "--set", f"FARM_DIR={collection.farm}"]
    assert orchestrator("farm", "up", *farm).returncode == 0
    try:
        # when a collection runs on it
        done = collection.run()
        assert done.returncode == 0, done.stdout
        assert collection.comparable() == reference_collection.comparable()
        assert "taking the embedded farm down" not in done.stdout
        # then the farm is still up, and a second start makes no call again
        answers = collection.answers()
        assert answers == reference_collection.answers()
        again = collection.run()
        assert again.returncode == 0, again.stdout
        assert collection.answers() == answers
        assert collection.comparable() == reference_collection.comparable()
        assert "not computed by this command, but taken from the store or the checkpoints: 12 verbose" in again.stdout
        assert "--fresh computes everything anew" in again.stdout
        # and a fresh start makes every call again, beside the collection that it has set aside
        fresh = collection.run("--fresh")
        assert fresh.returncode == 0, fresh.stdout
        assert f"the earlier collection is now in {collection.output}.1" in fresh.stdout
        assert "not computed by this command" not in fresh.stdout
        assert collection.answers() == 2 * answers
        assert collection.comparable() == reference_collection.comparable()
        assert json.loads(orchestrator("farm", "status", *farm, "--json").stdout)["up"]
    finally:
        assert orchestrator("farm", "down", *farm).returncode == 0
    assert collection.processes() == []


def test_a_failing_judge_gives_no_verdict(reference_collection: CollectionFolder, collection: CollectionFolder) -> None:
    # given a farm whose judge always fails
    farm = ["--config", str(ROOT / "configs" / "embedded.config"), "--set", f"FARM_DIR={collection.farm}"]
    assert orchestrator("farm", "up", *farm, "--set", "EMBEDDED_FAULTS=verdict:quota:*").returncode == 0
    try:
        failed = collection.run()
    finally:
        assert orchestrator("farm", "down", *farm).returncode == 0
    # then the collection parks with the reason, and no pair is discarded because of it
    assert failed.returncode == 3, failed.stdout
    assert "parked: verdict of sample_id_" in failed.stdout
    assert "Traceback" not in failed.stdout
    pairs = collection.output / "phase0_pairs.jsonl"
    for line in pairs.read_text().splitlines() if pairs.exists() else ():
        for pair in json.loads(line)["pairs"]:
            by_rule = pair["correctness"]["is_correct"] or not pair["compressed_answer"].strip()
            assert by_rule, "only rules gave a verdict"
    # and with a judge that answers it continues and gives the same output
    done = collection.run("--resume")
    assert done.returncode == 0, done.stdout
    assert collection.comparable() == reference_collection.comparable()
    assert collection.repeated() == []


def test_workers_started_one_by_one_give_the_same_output(
    reference_collection: CollectionFolder, collection: CollectionFolder
) -> None:
    with by_hand(collection) as (redis_url, endpoint_url):
        here = {"api_base": endpoint_url, "api_key_env": KEY_VARIABLE}
        judge = {"evaluator_api_base": endpoint_url, "evaluator_api_key_env": KEY_VARIABLE}
        collection.configure({"reflector": here, "phase0": {"correctness": judge}})
        done = collection.run("--farm", "external", "--redis-url", redis_url)
        assert done.returncode == 0, done.stdout
        assert collection.comparable() == reference_collection.comparable()
        assert collection.answers() == reference_collection.answers()
        assert collection.repeated() == []
    assert collection.processes() == []


@contextmanager
def by_hand(collection: CollectionFolder) -> Iterator[tuple[str, str]]:
    """A Valkey, an endpoint and a worker of each queue, as in docs/farm.md; gives the addresses of both servers."""
    socket = valkey.socket_path(collection.farm)
    url = valkey.redis_url(socket)
    own = {ENVIRONMENT_VARIABLE: url, FARM_VARIABLE: str(collection.farm), KEY_VARIABLE: "a key of the workers alone"}
    logs = collection.farm / "logs"
    logs.mkdir(parents=True)
    with ExitStack() as stack:
        server = valkey.valkey_process(collection.farm, socket, None)
        stack.callback(valkey.remove_socket, collection.farm)
        stack.callback(server.stop, 5.0)
        server.start()
        server.wait_ready(lambda: valkey.is_answering(socket), 20)
        calls = str(logs / "endpoint_calls.jsonl")
        endpoint = subprocess.Popen(
            [sys.executable, "-m", "workers.embedded.endpoint", "--port", "0", "--calls-log", calls],
            cwd=ROOT, stdout=subprocess.PIPE, text=True,
            env=environment() | {ENDPOINT_KEY_VARIABLE: own[KEY_VARIABLE]},
        )  # fmt: skip
        stack.callback(_end, endpoint)
        assert endpoint.stdout is not None
        address = endpoint.stdout.readline().split()[-1]
        for queue in QUEUES:
            log = stack.enter_context((logs / f"{queue}.log").open("wb"))
            worker = subprocess.Popen(
                worker_command(queue, queue, 2), cwd=ROOT, env=environment() | own, stdout=log, stderr=log
            )
            stack.callback(_end, worker)
        for queue in QUEUES:
            wait_until(lambda q=queue: worker_answers(url, q), f"the {queue} worker", 60)
        yield url, address


def _end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(30)
