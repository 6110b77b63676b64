"""The target server's life: started when asked for, restarted when it dies, and gone with its worker."""

import dataclasses
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
from server_target import TINY_SERVER, server_target, told

from tasks.gpu.connections import SERVER_STATS
from tasks.gpu.host import TargetUnavailable
from workers.sglang.host import LocalTargetHost


@pytest.fixture
def host(tmp_path: Path) -> Iterator[LocalTargetHost]:
    host = LocalTargetHost(tmp_path, "gpu", {**os.environ, "PYTHONPATH": ""})
    yield host
    host.close()


def lives(pid: object) -> bool:
    try:
        return psutil.Process(int(str(pid))).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def kill(pid: object, url: str) -> None:
    """Kill a server, and have a request to it fail."""
    os.kill(int(str(pid)), signal.SIGKILL)
    until(lambda: not lives(pid))
    SERVER_STATS.mark_unhealthy(url)


def test_a_server_is_started_once_for_all_who_ask(host: LocalTargetHost) -> None:
    # Given four tasks that ask at once
    with ThreadPoolExecutor(max_workers=4) as tasks:
        urls = set(tasks.map(host.serve, [server_target(args="--size 3")] * 4))
    # Then there is one server, started with the model, the options, the labels, and a steering module that it finds
    assert len(urls) == 1
    server = told(host, server_target(args="--size 3"))
    assert (server["model_path"], server["size"], server["labels"]) == ("some/model", 3, str(host.labels_folder()))
    assert server["steering"] == "whetstone_steering.request"


def test_a_server_that_died_is_started_again(host: LocalTargetHost) -> None:
    first = told(host, server_target())
    kill(first["pid"], host.serve(server_target()))
    second = told(host, server_target())
    assert second["pid"] != first["pid"]


def test_a_server_that_is_there_but_not_in_health_is_replaced(host: LocalTargetHost) -> None:
    first = told(host, server_target())
    told(host, server_target(), "/fall-sick")
    # When a request to it has failed, then
    SERVER_STATS.mark_unhealthy(host.serve(server_target()))
    second = told(host, server_target())
    assert (second["pid"] != first["pid"], lives(first["pid"])) == (True, False)


def test_another_target_takes_the_place_of_the_first(host: LocalTargetHost) -> None:
    first = told(host, server_target(args="--size 1"))
    second = told(host, server_target(args="--size 2"))
    assert (first["size"], second["size"], lives(first["pid"])) == (1, 2, False)


def test_a_stopped_server_is_gone_and_can_be_asked_for_again(host: LocalTargetHost) -> None:
    first = told(host, server_target())
    host.stop()
    assert not lives(first["pid"])
    assert lives(told(host, server_target())["pid"])


def test_a_server_outlives_the_thread_that_asked_for_it(host: LocalTargetHost) -> None:
    urls: list[str] = []
    asking = threading.Thread(target=lambda: urls.append(host.serve(server_target())))
    asking.start()
    asking.join()
    pid = told(host, server_target())["pid"]
    # The signal of a dead parent would have come by the time a second request is answered by a second thread.
    assert host.serve(server_target()) == urls[0]
    assert lives(pid)


def test_a_server_that_does_not_start_is_explained_by_its_log(host: LocalTargetHost) -> None:
    with pytest.raises(TargetUnavailable, match=r"ended with status 1[\s\S]*out of memory"):
        host.serve(server_target(args="--fail 'out of memory'"))


def test_a_key_keeps_others_away_and_stays_a_secret(host: LocalTargetHost, tmp_path: Path) -> None:
    # Given a server that logs all that it was told, as SGLang does
    server = told(host, server_target())
    key = str(host.api_key(server_target()))
    # Then nobody is answered without the key
    assert httpx.get(host.serve(server_target()) + "/server_info", trust_env=False).status_code == 401
    # And it is nowhere to be read: not in the process list, not in the log, not in the folder
    assert not any(key in part for part in psutil.Process(int(str(server["pid"]))).cmdline())
    log = (tmp_path / "logs" / "target.log").read_text()
    assert "600 api_key=***" in log
    assert [path for path in tmp_path.rglob("*") if path.is_file() and key in path.read_text()] == []


def test_a_key_is_in_no_error(host: LocalTargetHost) -> None:
    with pytest.raises(TargetUnavailable, match=r"api_key=\*\*\*") as raised:
        host.serve(server_target(args="--fail 'out of memory'"))
    assert str(host.api_key(server_target())) not in str(raised.value)


def test_the_key_of_a_running_server_comes_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sesame\n")
    host = LocalTargetHost(tmp_path, "gpu", {"SGLANG_API_KEY_FILE": str(tmp_path / "key")})
    try:
        assert host.api_key(server_target(url="http://127.0.0.1:1")) == "sesame"
    finally:
        host.close()


def test_those_who_wait_for_a_server_that_does_not_start_are_told_at_once(
    host: LocalTargetHost, tmp_path: Path
) -> None:
    broken = server_target(args="--fail 'out of memory'")
    # When four tasks wait for it, then all of them get the reason, and one of them has tried
    with ThreadPoolExecutor(max_workers=4) as tasks:
        errors = [future.exception() for future in [tasks.submit(host.serve, broken) for _ in range(4)]]
    assert all("out of memory" in str(error) for error in errors)
    assert (tmp_path / "logs" / "target.log").read_text().count("out of memory") == 1


def test_a_gpu_that_is_not_there_is_a_reason(tmp_path: Path) -> None:
    host = LocalTargetHost(tmp_path, "gpu", {**os.environ, "WHETSTONE_GPU": "99"})
    with pytest.raises(TargetUnavailable, match=r'^CONFIG_DEVICE is "cuda": (no GPU on this machine|WHETSTONE_GPU)'):
        host.serve(dataclasses.replace(server_target(), device="cuda"))
    host.close()


def test_a_host_describes_its_target(host: LocalTargetHost) -> None:
    assert host.describe().keys() == {"in_flight", "tokens_a_second"}
    server = told(host, server_target())
    kill(server["pid"], host.serve(server_target()))
    url = host.serve(server_target())
    known = {"engine": "sglang", "version": "0.0.tiny", "url": url, "model": "some/model", "starts": 2}
    assert host.describe().items() >= known.items()


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
        assert lives(told(elsewhere, server_target())["pid"])
    finally:
        elsewhere.close()


def test_a_worker_takes_its_server_with_it(bench: Bench) -> None:
    # Given a gpu worker whose task has asked for a server
    worker = bench.start_worker("gpu", 1)
    server = bench.app.send_task("gpu.serve", (TINY_SERVER,)).get(timeout=30)
    # When the worker is told to stop, then the server is gone with it
    worker.ask_to_stop()
    assert worker.wait_end(10)
    assert not lives(server["pid"])


def test_a_killed_worker_leaves_no_server(bench: Bench) -> None:
    worker = bench.start_worker("gpu", 1)
    server = bench.app.send_task("gpu.serve", (TINY_SERVER,)).get(timeout=30)
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
