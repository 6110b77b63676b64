"""Names for workers that were given none: the queue's, unless another worker of the host has it."""

import os
import socket

from farm_bench import Bench

from tasks.store.address import ENVIRONMENT_VARIABLE, store_url
from tasks.store.client import connect
from tasks.store.workers import WorkerRegistry
from workers.health import free_name


def test_the_second_worker_of_a_queue_on_a_host_has_a_name_of_its_own(bench: Bench) -> None:
    assert free_name("cpu", bench.environment) == "cpu"
    bench.start_worker("cpu")
    assert free_name("cpu", bench.environment) == f"cpu-{os.getpid()}"
    assert free_name("gpu", bench.environment) == "gpu"


def test_the_report_of_a_killed_worker_does_not_block_its_name(bench: Bench) -> None:
    registry = WorkerRegistry(connect(store_url(bench.url)))
    for pid in (2**22 + 1, os.getpid()):
        registry.put(f"cpu@{socket.gethostname()}", {"worker": f"cpu@{socket.gethostname()}", "pid": pid}, 60)
        assert free_name("cpu", bench.environment) == "cpu"


def test_without_a_store_the_name_is_the_queues() -> None:
    assert free_name("cpu", {ENVIRONMENT_VARIABLE: "unix:///nowhere/valkey.sock?db=0"}) == "cpu"
