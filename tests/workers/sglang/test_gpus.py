"""Which GPU a worker claims, and who waits or is refused on a card that either serves or computes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from farm_bench import Bench, lives, until
from server_target import server_reply, server_target

from tasks.gpu.host import CardComputes
from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.sglang.gpus import Gpu, GpuUnavailable, claim, eligible
from workers.sglang.host import LocalTargetHost

GPUS = [Gpu(index, f"GPU {index}") for index in range(4)]


def test_the_environment_selects_the_gpus_of_a_worker() -> None:
    selected = {
        "": [0, 1, 2, 3],
        "CUDA_VISIBLE_DEVICES=2,0": [2, 0],
        "WHETSTONE_GPU=3": [3],
        "WHETSTONE_GPU=1 CUDA_VISIBLE_DEVICES=2,0": [1],
    }
    for variables, indices in selected.items():
        environment = dict(one.split("=") for one in variables.split())
        assert [gpu.index for gpu in eligible(GPUS, environment)] == indices
    for name, value in (("WHETSTONE_GPU", "4"), ("CUDA_VISIBLE_DEVICES", "")):
        with pytest.raises(GpuUnavailable, match=f"^{name} is "):
            eligible(GPUS, {name: value})


def test_a_gpu_has_one_worker_until_that_and_its_server_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a worker whose server holds the claim too
    monkeypatch.setattr("workers.sglang.gpus.HOST_FOLDER", tmp_path)
    first = claim(GPUS[:1])
    waits = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, pass_fds=(first.lock.fileno(),)):
        # When another worker comes, which may have another folder for temporary files, then it gets the next GPU
        monkeypatch.setenv("TMPDIR", str(tmp_path / "other"))
        monkeypatch.setattr("tempfile.tempdir", None)
        second = claim(GPUS)
        assert (first.gpu.index, second.gpu.index) == (0, 1)
        second.release()
        # and none while the worker has ended and its server has not
        first.release()
        with pytest.raises(GpuUnavailable, match=r"^GPU 0 of this machine is in use by another worker; WHETSTONE_GPU"):
            claim(GPUS[:1])
    claim(GPUS[:1]).release()


def test_the_server_is_stopped_while_tasks_compute_and_started_again_afterwards(host: LocalTargetHost) -> None:
    # Given a server that nobody uses
    first = server_reply(host, server_target())
    # When tasks compute, then it is gone, and none is started, early or at once
    with host.computing(lambda: None):
        assert (lives(first["pid"]), host.describe()["card"]) == (False, "computes")
        with pytest.raises(CardComputes):
            host.serve(server_target())
        with pytest.raises(CardComputes):
            host.identity(server_target(args="--size 2"))
        host.start_early(server_target())
        assert "model" not in host.describe()
        # And a server that somebody else runs may be used all the same
        with host.serving(server_target(url="http://127.0.0.1:1")):
            pass
    # Then the next task has a server again
    assert lives(server_reply(host, server_target())["pid"])


def test_on_a_farm_training_goes_first_and_who_would_be_served_goes_elsewhere(bench: Bench) -> None:
    # Given a worker with three slots on which one task is served
    worker = bench.start_worker("gpu", 3, name="first")
    served = bench.app.send_task("gpu.served", ("served",))
    until(lambda: bench.began("served"))
    # When two tasks want to compute, then they wait until no request is in flight
    for name in ("train-1", "train-2"):
        bench.app.send_task("gpu.compute", (name,))
    until(lambda: card_of(bench) == "computes")
    assert (bench.began("train-1"), bench.began("train-2")) == (0, 0)
    bench.let_end("served")
    assert served.get(timeout=20) == "served"
    # And then both share the card
    until(lambda: bench.began("train-1") and bench.began("train-2"))
    pids = [int(bench.store.lindex(f"{name}:began", 0)) for name in ("train-1", "train-2")]
    assert all(map(lives, pids))
    # A task that wants to be served meanwhile goes back to the queue, and the worker says why
    bench.let_end("later")
    later = bench.app.send_task("gpu.served", ("later",))
    until(lambda: "the card of this worker computes" in bench.log("first").read_text())
    assert bench.began("later") == 0
    # until another worker takes it
    bench.start_worker("gpu", 1, name="second")
    assert later.get(timeout=30) == "later"
    # When the worker is killed, then nothing of it is left, and its tasks begin again on the other worker
    os.kill(worker.pid or 0, 9)
    until(lambda: not any(map(lives, pids)))
    until(lambda: bench.began("train-1") == 2 or bench.began("train-2") == 2)
    # When a child is killed, then its task fails with the reason
    again = next(name for name in ("train-1", "train-2") if bench.began(name) == 2)
    os.kill(int(bench.store.lindex(f"{again}:began", 1)), 9)
    assert "ended by signal 9" in failure(bench)


def card_of(bench: Bench) -> str:
    (reply,) = bench.app.control.broadcast("whetstone_report", reply=True, timeout=10, limit=1)
    return str(next(iter(reply.values()))["target"]["card"])


def failure(bench: Bench) -> str:
    store = Store(connect(store_url(bench.url)))
    until(lambda: store.failures("run", "plan"))
    return store.failures("run", "plan")[0].error


def test_a_task_over_its_hard_limit_leaves_no_child(bench: Bench) -> None:
    bench.start_worker("gpu", 1)
    bench.app.send_task("gpu.compute_too_long", ("hung",))
    until(lambda: bench.began("hung"))
    pid = bench.store.lindex("hung:began", 0)
    assert "TimeLimitExceeded" in failure(bench)
    until(lambda: not lives(pid))
