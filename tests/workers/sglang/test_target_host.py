"""The target server's life cycle: started on first use, restarted when it dies, stopped with its worker."""

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from farm_bench import Bench, until
from server_target import TINY_SERVER, http_client, server_reply, server_target

from tasks.gpu.host import TargetUnavailable
from tasks.gpu.target import SERVER_STATS
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
    """Kill a server, and record that a request to it failed."""
    os.kill(int(str(pid)), signal.SIGKILL)
    until(lambda: not lives(pid))
    SERVER_STATS.failed(url)


def test_a_server_is_started_once_for_all_tasks(host: LocalTargetHost) -> None:
    # Given four tasks that need a server at the same time
    with ThreadPoolExecutor(max_workers=4) as tasks:
        urls = set(tasks.map(host.serve, [server_target(args="--size 3")] * 4))
    # Then one server is started, with the model, the options, the labels and the steering module
    assert len(urls) == 1
    server = server_reply(host, server_target(args="--size 3"))
    assert (server["model_path"], server["size"], server["labels"]) == ("some/model", 3, str(host.labels_folder()))
    assert server["steering"] == "whetstone_steering.request"
    # And it keeps no answers in its prefix cache
    assert server["prefix_cache"] == "prompts"


def test_a_server_that_died_is_started_again(host: LocalTargetHost) -> None:
    first = server_reply(host, server_target())
    kill(first["pid"], host.serve(server_target()))
    second = server_reply(host, server_target())
    assert second["pid"] != first["pid"]


def test_a_server_that_runs_but_is_unhealthy_is_replaced(host: LocalTargetHost) -> None:
    first = server_reply(host, server_target())
    server_reply(host, server_target(), "/become-unhealthy")
    # When a request to it has failed, then another server takes its place
    SERVER_STATS.failed(host.serve(server_target()))
    second = server_reply(host, server_target())
    assert (second["pid"] != first["pid"], lives(first["pid"])) == (True, False)


def test_a_server_can_be_started_before_a_task_needs_it(host: LocalTargetHost) -> None:
    # Given two jobs that have it started early, each without waiting for it
    host.start_early(server_target())
    host.start_early(server_target())
    until(lambda: host.describe().get("starts") == 1)
    # When tasks need it, also one with another target, then the first has it at once
    server = server_reply(host, server_target())
    assert host.describe()["starts"] == 1
    # And a server that runs is not replaced early
    host.start_early(server_target(args="--size 2"))
    assert server_reply(host, server_target())["pid"] == server["pid"]


def test_a_server_outlives_the_thread_that_requested_it(host: LocalTargetHost) -> None:
    urls: list[str] = []
    asking = threading.Thread(target=lambda: urls.append(host.serve(server_target())))
    asking.start()
    asking.join()
    pid = server_reply(host, server_target())["pid"]
    # The parent-death signal would have arrived before a second thread answers a second request.
    assert host.serve(server_target()) == urls[0]
    assert lives(pid)


def test_a_server_that_does_not_start_is_explained_by_its_log(host: LocalTargetHost) -> None:
    with pytest.raises(TargetUnavailable, match=r"ended with status 1[\s\S]*out of memory"):
        host.serve(server_target(args="--fail 'out of memory'"))


def test_a_server_that_is_killed_while_it_starts_is_started_again(host: LocalTargetHost, tmp_path: Path) -> None:
    # Given a server that is killed in its first start
    mark = tmp_path / "killed"
    first = f"if [ ! -e {mark} ]; then touch {mark}; kill -9 $$; fi"
    command = f"sh -c '{first}; exec {TINY_SERVER} \"$@\"' sh"
    assert server_reply(host, server_target(command=command))["model_path"] == "some/model"
    assert mark.exists()


def test_the_server_requires_a_key_that_stays_secret(host: LocalTargetHost, tmp_path: Path) -> None:
    # Given a server that logs all its arguments, as SGLang does
    server = server_reply(host, server_target())
    key = str(host.api_key(server_target()))
    # Then a request without the key is refused
    assert http_client(host.serve(server_target())).get("/server_info").status_code == 401
    # And the key is not in the process list, the log or the folder
    assert not any(key in part for part in psutil.Process(int(str(server["pid"]))).cmdline())
    log = (tmp_path / "logs" / "target.log").read_text()
    assert "600 api_key=***" in log
    assert [path for path in tmp_path.rglob("*") if path.is_file() and key in path.read_text()] == []


def test_the_key_is_in_no_error_message(host: LocalTargetHost) -> None:
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


def test_a_server_that_is_not_ready_in_time_is_stopped(host: LocalTargetHost, tmp_path: Path) -> None:
    with pytest.raises(TargetUnavailable, match=r"not ready in 0\.5 s"):
        host.serve(server_target(command="sh -c 'sleep 600'", ready_timeout_s=0.5))
    assert "[]" in (tmp_path / "target-gpu.json").read_text()


def test_an_external_server_is_used_and_never_stopped(host: LocalTargetHost, tmp_path: Path) -> None:
    # Given a server that another host started
    elsewhere = LocalTargetHost(tmp_path / "elsewhere", "gpu", os.environ)
    url = elsewhere.serve(server_target())
    try:
        assert host.serve(server_target(url=url + "/")) == url
        host.stop()
        assert lives(server_reply(elsewhere, server_target())["pid"])
    finally:
        elsewhere.close()


def test_a_second_worker_of_a_name_does_not_end_the_server_of_the_first(host: LocalTargetHost, tmp_path: Path) -> None:
    host.clear_leftovers()
    server = server_reply(host, server_target())
    second = LocalTargetHost(tmp_path, "gpu", os.environ)
    with pytest.raises(TargetUnavailable, match="another gpu worker of this host is called gpu"):
        second.clear_leftovers()
    second.close()
    assert server_reply(host, server_target())["pid"] == server["pid"]
    # When the first has ended, the name is free
    host.close()
    third = LocalTargetHost(tmp_path, "gpu", os.environ)
    assert third.clear_leftovers() == []
    third.close()


def test_a_worker_stops_its_server_when_it_stops(bench: Bench) -> None:
    # Given a gpu worker with a server
    worker = bench.start_worker("gpu", 1)
    server = bench.app.send_task("gpu.serve", (TINY_SERVER,)).get(timeout=30)
    # When the worker is asked to stop, then the server ends with it
    worker.ask_to_stop()
    assert worker.wait_end(10)
    assert not lives(server["pid"])


def test_the_server_of_a_killed_worker_ends(bench: Bench) -> None:
    worker = bench.start_worker("gpu", 1)
    server = bench.app.send_task("gpu.serve", (TINY_SERVER,)).get(timeout=30)
    os.kill(worker.pid or 0, signal.SIGKILL)
    until(lambda: not lives(server["pid"]))
