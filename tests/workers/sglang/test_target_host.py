"""The target server: started on first use, replaced when it dies, stopped with its worker; its socket, key, report."""

from __future__ import annotations

import dataclasses
import os
import shlex
import signal
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from farm_bench import Bench, lives, until
from server_target import TINY_SERVER, Evaluation, evaluate, http_client, server_reply, server_target, store_run

from tasks.common.files import unix_path
from tasks.gpu.host import TargetUnavailable
from tasks.gpu.target import SERVER_STATS
from tasks.store.store import Store
from tasks.task import GiveBack
from workers.embedded.models import embedded_model
from workers.sglang.host import LocalTargetHost
from workers.sglang.identity import SAMPLE_BYTES, weights_fingerprint


def test_a_server_is_started_once_for_all_tasks_and_outlives_their_threads(host: LocalTargetHost) -> None:
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
    # The parent-death signal would have arrived before a second request is answered
    assert host.serve(server_target(args="--size 3")) in urls
    assert lives(server["pid"])


@pytest.mark.parametrize("dies", [True, False])
def test_a_server_that_died_or_is_unhealthy_is_replaced(host: LocalTargetHost, dies: bool) -> None:
    first, url = server_reply(host, server_target()), host.serve(server_target())
    if dies:
        os.kill(int(str(first["pid"])), signal.SIGKILL)
        until(lambda: not lives(first["pid"]))
    else:
        server_reply(host, server_target(), "/become-unhealthy")
    # When a request to it has failed, then another server takes its place, with a key and a socket of its own
    key = host.api_key(server_target())
    SERVER_STATS.failed(url)
    second, again = server_reply(host, server_target()), host.serve(server_target())
    assert (second["pid"] != first["pid"], lives(first["pid"])) == (True, False)
    assert len({url, key, again, host.api_key(server_target())}) == 4
    assert http_client(again).get("/server_info", headers={"Authorization": f"Bearer {key}"}).status_code == 401


def test_a_server_that_does_not_start_is_explained_by_its_log_without_its_key(
    host: LocalTargetHost, tmp_path: Path
) -> None:
    with pytest.raises(TargetUnavailable, match=r"ended with status 1[\s\S]*out of memory") as raised:
        host.serve(server_target(args="--fail 'out of memory'"))
    assert "api_key=***" in str(raised.value)
    with pytest.raises(TargetUnavailable, match=r"not ready in 0\.5 s"):
        host.serve(server_target(command="sh -c 'sleep 600'", ready_timeout_s=0.5))
    assert "[]" in (tmp_path / "target-gpu.json").read_text()


def test_a_server_listens_on_a_socket_of_its_user_alone_and_requires_a_key_that_stays_secret(
    host: LocalTargetHost, tmp_path: Path
) -> None:
    # Given a server that logs all its arguments, as SGLang does
    process = psutil.Process(int(str(server_reply(host, server_target())["pid"])))
    key, path = str(host.api_key(server_target())), Path(unix_path(host.serve(server_target())) or "")
    # Then it listens on its socket and on nothing else, and a request without the key is refused
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [c for c in process.net_connections("inet") if c.status == "LISTEN"] == []
    assert http_client(host.serve(server_target())).get("/server_info").status_code == 401
    # And the key is not in the process list, the log or the folder
    assert not any(key in part for part in process.cmdline())
    assert "600 api_key=***" in (tmp_path / "logs" / "target.log").read_text()
    assert [path for path in tmp_path.rglob("*") if path.is_file() and key in path.read_text()] == []
    host.stop()
    assert not path.exists()


def test_an_external_server_is_used_with_its_key_described_by_its_report_and_never_stopped(
    host: LocalTargetHost, tmp_path: Path
) -> None:
    own = server_target()
    target = dataclasses.replace(own, url=host.serve(own))
    (tmp_path / "key").write_text(f"{host.api_key(own)}\n")
    user = LocalTargetHost(tmp_path / "user", "gpu", {**os.environ, "SGLANG_API_KEY_FILE": str(tmp_path / "key")})
    assert (user.identity(target)["model_path"], user.identity(target)["version"]) == ("some/model", "0.0.tiny")
    assert user.serve(dataclasses.replace(target, url=f"{target.url}/")) == target.url
    user.close()
    assert host.serve(own) == target.url
    stranger = LocalTargetHost(tmp_path / "stranger", "gpu", {**os.environ, "SGLANG_API_KEY": "wrong"})
    with pytest.raises(TargetUnavailable, match="does not report its model: /server_info: HTTP 401"):
        stranger.identity(target)


def test_a_second_worker_of_a_name_does_not_end_the_server_of_the_first(host: LocalTargetHost, tmp_path: Path) -> None:
    host.clear_leftovers()
    server, second = server_reply(host, server_target()), LocalTargetHost(tmp_path, "gpu", os.environ)
    with pytest.raises(TargetUnavailable, match="another gpu worker of this host is called gpu"):
        second.clear_leftovers()
    second.close()
    assert server_reply(host, server_target())["pid"] == server["pid"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_server_of_a_worker_that_is_stopped_or_killed_ends(bench: Bench, number: signal.Signals) -> None:
    worker = bench.start_worker("gpu", 1)
    server = bench.app.send_task("gpu.serve", (TINY_SERVER,)).get(timeout=30)
    os.kill(worker.pid or 0, number)
    assert worker.wait_end(10)
    until(lambda: not lives(server["pid"]))


def test_a_task_that_waits_for_its_server_when_the_worker_stops_is_given_back(
    host: LocalTargetHost, tmp_path: Path
) -> None:
    started = tmp_path / "target-gpu.json"
    with ThreadPoolExecutor(max_workers=1) as task:
        serving = task.submit(host.serve, server_target(command="sh -c 'sleep 600'"))
        until(lambda: started.exists() and "[]" not in started.read_text())
        host.close()
        with pytest.raises(GiveBack, match="the worker is shutting down"):
            serving.result()


def test_a_server_that_comes_back_as_another_one_is_refused(host: LocalTargetHost, tmp_path: Path) -> None:
    # Given a server whose version changes while it is down
    version = tmp_path / "version"
    version.write_text("0.5.20")
    target = server_target(args=f"--version-file {version}")
    identity = host.identity(target)
    url = host.serve(target, "", identity)
    host.stop()
    SERVER_STATS.failed(url)
    version.write_text("0.5.21")
    # When a task needs the server that its keys name, then the error names the difference
    with pytest.raises(TargetUnavailable, match=r"version '0\.5\.20' is now '0\.5\.21'"):
        host.serve(target, "", identity)
    assert host.serve(target, "", host.identity(target))


def test_a_fingerprint_differs_when_weights_or_settings_differ(tmp_path: Path) -> None:
    # Given a model with a file larger than all samples, and the same model in another folder
    random = np.random.default_rng(1)
    content, first, second = random.bytes(100 * SAMPLE_BYTES), tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(content)
    (second / "README.md").write_text("text that does not count")
    assert weights_fingerprint(first) == weights_fingerprint(second)
    # When all numbers change, or the last byte, or a setting, then it is another model
    for weights, config in ((random.bytes(len(content)), "{}"), (content[:-1] + b"x", "{}"), (content, "[]")):
        (second / "model.safetensors").write_bytes(weights)
        (second / "config.json").write_text(config)
        assert weights_fingerprint(first) != weights_fingerprint(second)


QUESTIONS = 8


def put_run(store: Store, name: str, **target: Any) -> None:
    changed = {"model": str(embedded_model()), "concurrency": 4, "request_timeout_s": 20, **target}
    served = dataclasses.replace(server_target(), **changed)
    store_run(store, name, served, np.arange(50) % 3, ["word " * n for n in range(QUESTIONS)])


def test_servers_of_different_arguments_never_share_answers(store: Store, tmp_path: Path) -> None:
    def evaluated(run: str, args: str) -> Evaluation:
        put_run(store, run, args=args)
        with closing(LocalTargetHost(tmp_path / run, "gpu", os.environ)) as host:
            return evaluate(host, store, run, [[0.0, 0.5, -0.5]])[0]

    # Given two runs with the same settings on one Redis, whose servers have different arguments
    first, second = evaluated("first", "--size 2"), evaluated("second", "--size 3")
    # Then each has generated its own answers
    assert (first.generated, second.generated) == (QUESTIONS, QUESTIONS)
    assert not set(first.keys) & set(second.keys)
    # And a third server that is equal to the first one, in another folder, needs to generate nothing
    third = evaluated("third", "--size 2")
    assert (third.generated, third.keys) == (0, first.keys)


def test_answers_are_kept_when_the_server_dies_in_the_middle_of_a_batch(
    host: LocalTargetHost, store: Store, tmp_path: Path
) -> None:
    # Given a server that exits after three answers
    put_run(store, "run", command=f"{TINY_SERVER} --die-once {shlex.quote(str(tmp_path / 'died'))}")
    # When two individuals are evaluated on it
    evaluations = evaluate(host, store, "run", [[0.0] * 3, [1.0] * 3])
    # Then a second server gave the rest, and each question has one answer, counted once
    together = [answer for evaluation in evaluations for answer in evaluation.answers]
    assert (tmp_path / "died").exists()
    assert len(together) == 2 * QUESTIONS
    assert len({str(answer["text"]).split()[1] for answer in together}) == 2, "an answer names its server's pid"
    assert store.usage("run")["target"] == sum(answer["tokens"] for answer in together) == 2 * QUESTIONS
