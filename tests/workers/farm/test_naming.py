"""A worker without a name takes its queue's, unless that is taken."""

import os
import socket

from farm_bench import Bench

from tasks.store.address import ENVIRONMENT_VARIABLE, store_url
from tasks.store.client import connect
from tasks.store.registry import WorkerRegistry
from workers.health import free_name


def test_the_second_worker_of_a_queue_on_a_host_has_a_name_of_its_own(bench: Bench) -> None:
    assert free_name("cpu", bench.environment) == "cpu"
    bench.start_worker("cpu")
    assert free_name("cpu", bench.environment) == f"cpu-{os.getpid()}"
    assert free_name("gpu", bench.environment) == "gpu"


def test_what_a_killed_worker_left_takes_no_name(bench: Bench) -> None:
    roster = WorkerRegistry(connect(store_url(bench.url)))
    for pid in (2**22 + 1, os.getpid()):
        roster.put(f"cpu@{socket.gethostname()}", {"worker": f"cpu@{socket.gethostname()}", "pid": pid}, 60)
        assert free_name("cpu", bench.environment) == "cpu"


def test_a_broker_that_is_away_knows_of_nobody() -> None:
    assert free_name("cpu", {ENVIRONMENT_VARIABLE: "unix:///nowhere/valkey.sock?db=0"}) == "cpu"
