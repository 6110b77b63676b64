"""The target server's life: started when asked for, restarted when it dies, and gone with its worker."""

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest
from farm_bench import Bench, until
from server_target import TINY_SERVER, server_target

from tasks.gpu.host import TargetUnavailable
from workers.target_host import LocalTargetHost


@pytest.fixture
def host(tmp_path: Path) -> Iterator[LocalTargetHost]:
    host = LocalTargetHost(tmp_path, "gpu", {**os.environ, "PYTHONPATH": ""})
    yield host
    host.close()


def told(url: str) -> dict[str, object]:
    answer: dict[str, object] = httpx.get(f"{url}/told", trust_env=False).json()
    return answer


def lives(pid: object) -> bool:
    try:
        return psutil.Process(int(str(pid))).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_server_is_started_once_for_all_who_ask(host: LocalTargetHost) -> None:
    # Given four tasks that ask at once
    with ThreadPoolExecutor(max_workers=4) as tasks:
        urls = set(tasks.map(host.serve, [server_target(args="--size 3")] * 4))
    # Then there is one server, started with the model, the options, the labels, and a steering module that it finds
    [url] = urls
    server = told(url)
    assert (server["model_path"], server["size"], server["labels"]) == ("some/model", 3, str(host.labels_folder()))
    assert server["steering"] == "whetstone_steering.parameters"


def test_a_server_that_died_is_started_again(host: LocalTargetHost) -> None:
    first = told(host.serve(server_target()))
    os.kill(int(str(first["pid"])), signal.SIGKILL)
    until(lambda: not lives(first["pid"]))
    second = told(host.serve(server_target()))
    assert second["pid"] != first["pid"]


def test_a_server_that_is_there_but_not_in_health_is_replaced(host: LocalTargetHost) -> None:
    url = host.serve(server_target())
    first = told(url)
    httpx.get(f"{url}/fall-sick", trust_env=False)
    second = told(host.serve(server_target()))
    assert (second["pid"] != first["pid"], lives(first["pid"])) == (True, False)


def test_another_target_takes_the_place_of_the_first(host: LocalTargetHost) -> None:
    first = told(host.serve(server_target(args="--size 1")))
    second = told(host.serve(server_target(args="--size 2")))
    assert (first["size"], second["size"], lives(first["pid"])) == (1, 2, False)


def test_a_stopped_server_is_gone_and_can_be_asked_for_again(host: LocalTargetHost) -> None:
    first = told(host.serve(server_target()))
    host.stop()
    assert not lives(first["pid"])
    assert lives(told(host.serve(server_target()))["pid"])


def test_a_server_outlives_the_thread_that_asked_for_it(host: LocalTargetHost) -> None:
    urls: list[str] = []
    asking = threading.Thread(target=lambda: urls.append(host.serve(server_target())))
    asking.start()
    asking.join()
    pid = told(urls[0])["pid"]
    # The signal of a dead parent would have come by the time a second request is answered by a second thread.
    assert host.serve(server_target()) == urls[0]
    assert lives(pid)


def test_a_server_that_does_not_start_is_explained_by_its_log(host: LocalTargetHost) -> None:
    with pytest.raises(TargetUnavailable, match=r"ended with status 1[\s\S]*out of memory"):
        host.serve(server_target(args="--fail 'out of memory'"))


def test_a_server_that_is_not_ready_in_time_is_stopped(host: LocalTargetHost, tmp_path: Path) -> None:
    with pytest.raises(TargetUnavailable, match=r"not ready in 0\.5 s"):
        host.serve(server_target(command="sh -c 'sleep 600'", ready_timeout_s=0.5))
    assert "[]" in (tmp_path / "target-gpu.json").read_text()


def test_closing_does_not_wait_for_a_server_that_becomes_ready(host: LocalTargetHost) -> None:
    with ThreadPoolExecutor(max_workers=1) as tasks:
        asked = tasks.submit(host.serve, server_target(command="sh -c 'sleep 600'", ready_timeout_s=600))
        host.close()
        with pytest.raises(TargetUnavailable):
            asked.result(timeout=15)


def test_a_server_that_runs_elsewhere_is_only_asked(host: LocalTargetHost, tmp_path: Path) -> None:
    # Given a server that another host has started
    elsewhere = LocalTargetHost(tmp_path / "elsewhere", "gpu", os.environ)
    url = elsewhere.serve(server_target())
    try:
        assert host.serve(server_target(url=url + "/")) == url
        host.stop()
        assert lives(told(url)["pid"])
    finally:
        elsewhere.close()


def test_a_worker_takes_its_server_with_it(bench: Bench) -> None:
    # Given a gpu worker whose task has asked for a server
    worker = bench.start_worker("gpu", 1)
    server = told(bench.app.send_task("gpu.serve", (TINY_SERVER,)).get(timeout=30))
    # When the worker is told to stop, then the server is gone with it
    worker.ask_to_stop()
    assert worker.wait_end(10)
    assert not lives(server["pid"])


def test_a_killed_worker_leaves_no_server(bench: Bench) -> None:
    worker = bench.start_worker("gpu", 1)
    server = told(bench.app.send_task("gpu.serve", (TINY_SERVER,)).get(timeout=30))
    os.kill(worker.pid or 0, signal.SIGKILL)
    until(lambda: not lives(server["pid"]))


def test_clusterings_are_kept_where_this_machine_keeps_them(host: LocalTargetHost, tmp_path: Path) -> None:
    # A run may come from another machine, with a folder that is not here.
    own = LocalTargetHost(tmp_path / "own", "gpu", {"WHETSTONE_CLUSTERS": "/kept/here"})
    try:
        assert own.clusters_folder("/home/somebody/outputs/clusters") == "/kept/here"
        assert host.clusters_folder("outputs/clusters") == "outputs/clusters"
    finally:
        own.close()
