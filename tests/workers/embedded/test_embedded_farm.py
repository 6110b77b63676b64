"""The embedded farm: its start and its restarts, whose it is, and that no process is left when it ends."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from farm_bench import until
from other_user import as_another_user, needs_root, shared_folder

from tasks.common.files import private_folder, runtime_path
from tasks.store.address import ENVIRONMENT_VARIABLE, store_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.app import create_app
from workers.embedded import farm as control
from workers.embedded.farm import FarmError, FarmSpec
from workers.embedded.valkey import socket_path
from workers.processes import temporary_folder
from workers.queues import MODULES_VARIABLE

pytestmark = pytest.mark.usefixtures("module_environment")


def farm_spec(folder: Path) -> FarmSpec:
    return FarmSpec(str(folder), openai_workers=2, embedded_endpoint=False, visibility_timeout=3.0)


@pytest.fixture
def farm_folder(tmp_path: Path) -> Iterator[Path]:
    """For a farm, which is stopped afterwards."""
    yield tmp_path / "farm"
    control.down(tmp_path / "farm")


def processes_of(folder: Path) -> list[int]:
    """Every living process that has the farm's folder in its command line, its environment or its name."""
    found = []
    for process in psutil.process_iter():
        try:
            text = " ".join([*process.cmdline(), *process.environ().values()])
            if str(folder) in text and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def test_a_stopped_farm_leaves_no_process_no_socket_and_no_temporary_folder(
    farm_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tempfile.mkdtemp(prefix="farm")  # short, for the paths of sockets
    monkeypatch.setenv("TMPDIR", temporary)
    monkeypatch.setattr(tempfile, "tempdir", None)
    before = os.umask(0)
    with control.start(farm_spec(farm_folder)) as farm:
        os.umask(before)
        status = control.status(farm_folder)
        assert status.up
        assert [one.name for one in status.processes] == ["supervisor", "valkey", "gpu", "openai1", "openai2", "cpu"]
        assert all(one.alive and one.rss > 0 for one in status.processes)
        assert socket_path(farm_folder).exists()
        with connect(store_url(farm.redis_url)) as client:
            limits = client.config_get("maxmemory*")
        assert (limits["maxmemory-policy"], int(limits["maxmemory"])) == ("noeviction", 2048 * 2**20)
        # Given what a target server leaves that was killed
        private_folder(temporary_folder(farm_folder / "target-gpu.json")).joinpath("socket").touch()
        # And its data is open to its user alone, whatever the umask
        files = [farm_folder, *(farm_folder / "valkey").rglob("*")]
        assert len(files) > 3
        assert [path for path in files if path.stat().st_mode & 0o077] == []
    assert processes_of(farm_folder) == []
    assert [path.name for path in Path(temporary).rglob("*")] == [f"whetstone-{os.getuid()}"]
    shutil.rmtree(temporary)
    assert not control.status(farm_folder).up


def test_the_next_start_ends_what_a_killed_supervisor_left_running(farm_folder: Path) -> None:
    # Given a farm whose supervisor is killed while its Valkey is stopped
    farm = control.start(farm_spec(farm_folder))
    pids = {one.name: one.pid for one in control.status(farm_folder).processes}
    os.kill(pids["valkey"], signal.SIGSTOP)
    os.kill(pids["supervisor"], signal.SIGKILL)
    until(lambda: not farm.alive)
    # When the next one starts in that folder, then no process of the old one runs
    with control.start(farm_spec(farm_folder)) as again:
        assert again.redis_url == farm.redis_url
        assert not set(processes_of(farm_folder)) & set(pids.values())
    farm.stop()
    assert processes_of(farm_folder) == []


def test_a_farm_that_cannot_start_gives_the_reason_and_leaves_no_process(
    farm_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MODULES_VARIABLE, "no_such_module")
    with pytest.raises(FarmError, match=r"ended with status 1[\s\S]*No module named 'no_such_module'"):
        control.start(farm_spec(farm_folder))
    assert processes_of(farm_folder) == []


def test_a_task_that_always_kills_its_worker_fails_and_what_ran_beside_it_goes_on(farm_folder: Path) -> None:
    with control.start(dataclasses.replace(farm_spec(farm_folder), gpu_slots=2, visibility_timeout=1.0)) as farm:
        # Given a worker with two tasks, one of which kills it each time
        store = Store(connect(store_url(farm.redis_url)))
        app = create_app({ENVIRONMENT_VARIABLE: farm.redis_url})
        for task, name in (("gpu.kill_recorded", "killer"), ("gpu.hold_recorded", "other")):
            app.send_task(task, (name,))
            until(lambda name=name: store.redis.llen(f"{name}:began"))
        store.redis.set("killer:go", 1)
        until(lambda: store.failures("run"), 150)
        # Then it alone has failed, the farm is up, and the other task ends
        [failure] = store.failures("run")
        assert failure.name == "killer" and "times the worker died or was lost while it ran this task" in failure.error
        assert farm.alive
        store.redis.set("other:go", 1)
        until(lambda: store.redis.llen("other:ended"))
        until(lambda: not app.connection_for_read().default_channel.client.hlen("unacked"))
        assert store.failures("run") == [failure]


def test_a_child_that_keeps_dying_stops_the_farm(farm_folder: Path) -> None:
    with control.start(farm_spec(farm_folder)) as farm:

        def kill_again() -> bool:
            for one in control.status(farm_folder).processes:
                if one.name == "gpu" and one.alive:
                    os.kill(one.pid, signal.SIGKILL)
            return not farm.alive

        until(kill_again, 60)
        assert "gpu died 5 times in 60 s, at last with SIGKILL" in farm.failure()
    assert processes_of(farm_folder) == []


@needs_root
def test_another_user_brings_no_farm_into_its_folder_and_has_no_socket_removed(
    farm_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shared_folder() as shared:
        as_another_user((shared / "farm").mkdir)
        with pytest.raises(FarmError, match=r"cannot use .*/farm: it belongs to another user"):
            control.start(farm_spec(shared / "farm"))
        assert list((shared / "farm").iterdir()) == []
        # Given a socket's name in a folder of this user, and a link to it in the place of the folder for sockets
        own = shared / "own" / socket_path(farm_folder).name
        own.parent.mkdir()
        own.touch()
        monkeypatch.setenv("TMPDIR", str(shared))
        monkeypatch.setattr(tempfile, "tempdir", None)
        place = runtime_path()
        as_another_user(lambda: place.symlink_to(own.parent))
        # When a farm is stopped that is not up, and when one is started, then nothing behind the link is touched
        control.down(farm_folder)
        with pytest.raises(FarmError, match="belongs to another user"):
            control.start(farm_spec(farm_folder))
        assert own.exists()


OWNER = """
import json, signal, sys
from workers.embedded import farm as control
farm = control.start(control.FarmSpec(**json.loads(sys.argv[1])))
print("up", flush=True)
signal.pause()
"""


def test_a_farm_of_another_process_cannot_be_used_or_stopped_and_ends_with_it(farm_folder: Path) -> None:
    command = [sys.executable, "-c", OWNER, json.dumps(dataclasses.asdict(farm_spec(farm_folder)))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None and owner.stdout.readline() == "up\n"
            attempts: list[Callable[[], object]] = [
                lambda: control.start(farm_spec(farm_folder)),
                lambda: control.attach_or_start(farm_spec(farm_folder)),
                lambda: control.down(farm_folder),
            ]
            for attempt in attempts:
                with pytest.raises(FarmError, match=f"belongs to process {owner.pid}"):
                    attempt()
            assert control.status(farm_folder).owner_pid == owner.pid
        finally:
            owner.kill()
    # When its owner is killed, then the farm stops by itself, in order
    until(lambda: processes_of(farm_folder) == [], 15)
    assert "the farm is down" in (farm_folder / "logs" / "supervisor.log").read_text()


def test_a_farm_started_by_up_is_used_and_left_running(farm_folder: Path) -> None:
    control.up(farm_spec(farm_folder))
    with control.attach_or_start(farm_spec(farm_folder)) as used:
        assert (used.owned, used.alive) == (False, True)
        with pytest.raises(FarmError, match="up in"):
            control.start(farm_spec(farm_folder))
    assert control.status(farm_folder).up
    assert control.down(farm_folder)
    assert processes_of(farm_folder) == []
    assert not control.down(farm_folder)
