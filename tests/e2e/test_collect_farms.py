"""Phase 0 on a farm that it did not start: one that stays, and workers that somebody started by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from collecting import Collecting
from workplace import ROOT, environment, orchestrator, wait_until

from tasks.queues import QUEUES
from tasks.store.address import ENVIRONMENT_VARIABLE
from workers.embedded import valkey
from workers.embedded.farm import FARM_VARIABLE
from workers.health import worker_answers
from workers.queues import worker_command

pytestmark = pytest.mark.long
KEY_VARIABLE = "SOME_KEY"


def test_a_farm_that_stays_is_used_and_left_and_answers_no_question_twice(
    collected: Collecting, place: Collecting
) -> None:
    # given a farm that is up
    farm = ["--config", str(ROOT / "configs" / "embedded.config"), "--set", f"FARM_DIR={place.farm}"]
    assert orchestrator("farm", "up", *farm).returncode == 0
    try:
        # when a collection is made on it
        done = place.run()
        assert done.returncode == 0, done.stdout
        assert place.lasting() == collected.lasting()
        assert "taking the embedded farm down" not in done.stdout
        # then the farm is still there, and another start asks it nothing that it knows
        answers = place.answers()
        assert answers == collected.answers()
        again = place.run()
        assert again.returncode == 0, again.stdout
        assert place.answers() == answers
        assert place.lasting() == collected.lasting()
        assert json.loads(orchestrator("farm", "status", *farm, "--json").stdout)["up"]
    finally:
        assert orchestrator("farm", "down", *farm).returncode == 0
    assert place.processes() == []


def test_a_judge_that_cannot_be_reached_is_no_verdict(collected: Collecting, place: Collecting) -> None:
    # given a farm whose judge never answers
    farm = ["--config", str(ROOT / "configs" / "embedded.config"), "--set", f"FARM_DIR={place.farm}"]
    assert orchestrator("farm", "up", *farm, "--set", "EMBEDDED_FAULTS=verdict:quota:*").returncode == 0
    try:
        failed = place.run()
    finally:
        assert orchestrator("farm", "down", *farm).returncode == 0
    # then the collection ends with the reason, and no pair counts as discarded for it
    assert failed.returncode == 3, failed.stdout
    assert "parked: verdict of sample_id_" in failed.stdout
    assert "Traceback" not in failed.stdout
    pairs = place.output / "phase0_pairs.jsonl"
    for line in pairs.read_text().splitlines() if pairs.exists() else ():
        for pair in json.loads(line)["pairs"]:
            by_rule = pair["correctness"]["is_correct"] or not pair["compressed_answer"].strip()
            assert by_rule, "only what the rule decides has a verdict"
    # and with a judge that answers it goes on, and is as if nothing had happened
    done = place.run("--resume")
    assert done.returncode == 0, done.stdout
    assert place.lasting() == collected.lasting()
    assert place.repeated() == []


def test_workers_that_were_started_by_hand_do_it_as_well(collected: Collecting, place: Collecting) -> None:
    with by_hand(place) as (redis_url, endpoint_url):
        here = {"api_base": endpoint_url, "api_key_env": KEY_VARIABLE}
        judge = {"evaluator_api_base": endpoint_url, "evaluator_api_key_env": KEY_VARIABLE}
        place.configure({"reflector": here, "phase0": {"correctness": judge}})
        done = place.run("--farm", "external", "--redis-url", redis_url)
        assert done.returncode == 0, done.stdout
        assert place.lasting() == collected.lasting()
        assert place.answers() == collected.answers()
        assert place.repeated() == []
    assert place.processes() == []


@contextmanager
def by_hand(place: Collecting) -> Iterator[tuple[str, str]]:
    """A Valkey, an endpoint and a worker of each queue, as in docs/farm.md; gives the addresses of the first two."""
    socket = valkey.socket_path(place.farm)
    url = valkey.redis_url(socket)
    own = {ENVIRONMENT_VARIABLE: url, FARM_VARIABLE: str(place.farm), KEY_VARIABLE: "a key of the workers alone"}
    logs = place.farm / "logs"
    logs.mkdir(parents=True)
    with ExitStack() as stack:
        server = valkey.valkey_process(place.farm, socket, None)
        stack.callback(valkey.remove_socket, place.farm)
        stack.callback(server.stop, 5.0)
        server.start()
        server.wait_ready(lambda: valkey.answers(socket), 20)
        calls = str(logs / "endpoint_calls.jsonl")
        endpoint = subprocess.Popen(
            [sys.executable, "-m", "workers.embedded.endpoint", "--port", "0", "--calls-log", calls],
            cwd=ROOT, stdout=subprocess.PIPE, text=True,
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
