"""The embedded farm: its start, its restarts, its limits, and that no process is left when it ends."""

import dataclasses
import os
import shutil
import signal
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from farm_bench import until
from farm_processes import farm_spec, kill, processes_of

from tasks.common.files import private_folder
from tasks.store.address import ENVIRONMENT_VARIABLE, store_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.app import create_app
from workers.embedded import farm as control
from workers.embedded.farm import FarmError
from workers.processes import temporary_folder
from workers.queues import MODULES_VARIABLE

pytestmark = pytest.mark.usefixtures("module_environment")


def socket_of(url: str) -> Path:
    return Path(url.removeprefix("unix://").partition("?")[0])


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
        assert len(processes_of(farm_folder)) >= 6
        assert socket_of(farm.redis_url).exists()
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
    kill(pids["supervisor"])
    # When the next one starts in that folder, then no process of the old one runs
    with control.start(farm_spec(farm_folder)) as again:
        assert again.redis_url == farm.redis_url
        assert not any(process.pid in pids.values() for process in processes_of(farm_folder))
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


def test_a_valkey_that_dies_while_the_farm_starts_is_the_reason_that_it_did_not(farm_folder: Path) -> None:
    def kill_valkey() -> None:
        until(lambda: any(one.name == "gpu" for one in control.status(farm_folder).processes))
        kill(next(one.pid for one in control.status(farm_folder).processes if one.name == "valkey"))

    with ThreadPoolExecutor(1) as pool, pytest.raises(FarmError, match="valkey ended with SIGKILL"):
        pool.submit(kill_valkey)
        control.start(farm_spec(farm_folder))
    assert processes_of(farm_folder) == []


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
