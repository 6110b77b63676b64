"""Reports of workers, pauses and an address that are garbage: each is a line, and the rest is listed."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator import exit_status
from orchestrator.commands import doctor, workers
from tasks.store.address import ENVIRONMENT_VARIABLE
from tasks.store.keys import PAUSED, WORKERS, worker_key
from tasks.store.registry import WorkerRegistry
from tasks.store.store import Store

GARBAGE = [
    b"", b"[]", b"\xff", b'{"worker": "bad@a", "pid": "x"}', b'{"worker": "bad@a", "started": NaN}', b'{"slots": []}',
    b'{"worker": "bad@a", "tasks": [3]}', b'{"worker": "bad@a", "started": 1e300}',
    b'{"worker": "bad@a", "target": {"url": "u", "gpu": {"used": "much"}}}', b"[" * 10_000,
]  # fmt: skip


@pytest.fixture
def farm(store: Store, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, valkey_url)
    good = {"worker": "cpu@a", "queue": "cpu", "slots": 2, "pid": 7, "host": "a", "version": "1", "started": 1.0}
    WorkerRegistry(store.redis).put("cpu@a", good, 60)
    return store


def test_reports_that_are_garbage_are_named_and_the_other_workers_are_listed(
    farm: Store, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    # given garbage of each kind at the same time: who asks waits two seconds for a worker that does not answer
    bad = {f"bad{number}@a": report for number, report in enumerate(GARBAGE)}
    for name, report in bad.items():
        farm.redis.sadd(WORKERS, name)
        farm.redis.set(worker_key(name), report.replace(b"bad@a", name.encode()), ex=60)
    with caplog.at_level(logging.WARNING):
        assert workers.run(workers.make_parser().parse_args([])) == exit_status.DONE
    listed = capsys.readouterr().out
    assert "cpu@a" in listed and "bad" not in listed
    for name in bad:
        assert any(f"the report of the worker {name!r} is left out: " in line for line in caplog.messages), name
    assert doctor.run(doctor.make_parser().parse_args([])) == exit_status.WRONG
    assert "workers of cpu" in capsys.readouterr().out


def test_names_and_pauses_that_are_garbage_do_no_harm(farm: Store, capsys: pytest.CaptureFixture[str]) -> None:
    farm.redis.sadd(WORKERS, b"\xff\x1b[31m")
    farm.redis.set(b"whetstone:worker:\xff\x1b[31m", "{}", ex=60)
    farm.redis.hset(PAUSED, mapping={"gpu": "yesterday", "cpu": "1e400"})
    assert workers.run(workers.make_parser().parse_args([])) == exit_status.DONE
    assert "paused: gpu, since 1970" in capsys.readouterr().out
    assert workers.run(workers.make_parser().parse_args(["--json"])) == exit_status.DONE
    assert {"gpu", "cpu"} <= set(json.loads(capsys.readouterr().out)["paused"])


@pytest.mark.parametrize("command", ["workers", "runs"])
def test_an_address_that_is_none_is_refused_in_one_line(command: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), ENVIRONMENT_VARIABLE: "redis://[::1"}
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", command],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == exit_status.WRONG
    assert done.stderr == f"orchestrator: {ENVIRONMENT_VARIABLE}: Invalid IPv6 URL: 'redis://[::1'\n"
