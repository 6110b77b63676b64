"""The embedded farm: its start, its restarts, its limits, and that no process is left when it ends."""

import dataclasses
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis
from celery import chain, chord
from farm_bench import until
from farm_processes import farm_spec, kill, processes_of

from tasks.common.files import private_folder
from tasks.store.address import ENVIRONMENT_VARIABLE, store_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.app import create_app
from workers.embedded import farm as control
from workers.embedded.farm import Farm, FarmError
from workers.processes import temporary_folder
from workers.queues import MODULES_VARIABLE

pytestmark = pytest.mark.usefixtures("module_environment")


def socket_of(url: str) -> Path:
    return Path(url.removeprefix("unix://").partition("?")[0])


@pytest.fixture
def farm(farm_folder: Path) -> Iterator[Farm]:
    with control.start(farm_spec(farm_folder)) as farm:
        yield farm


class Running:
    """A farm that runs a chord of three chains, and methods that disturb it."""

    def __init__(self, farm: Farm) -> None:
        self.folder = farm.folder
        self.app = create_app({ENVIRONMENT_VARIABLE: farm.redis_url})
        self.store = redis.Redis.from_url(store_url(farm.redis_url), decode_responses=True)

    def send_chord(self) -> object:
        chains = [
            chain(
                self.app.signature(f"{queue}.hold", (f"{queue}{n}",), immutable=True)
                for queue in ("gpu", "openai", "cpu")
            )
            for n in range(3)
        ]
        return chord(chains, app=self.app)(self.app.signature("cpu.count"))

    def pid(self, name: str) -> int:
        return next(one.pid for one in control.status(self.folder).processes if one.name == name)

    def kill_worker_of(self, queue: str) -> str:
        """Kill the process that runs a task of this queue; the name of the task."""
        names = [f"{queue}{n}" for n in range(3)]
        until(lambda: any(self.store.llen(f"{name}:began") for name in names))
        name = next(name for name in names if self.store.llen(f"{name}:began"))
        kill(int(self.store.lindex(f"{name}:began", -1)))
        return name

    def wait_for_disk(self) -> None:
        """Until Valkey's file has all messages: while a sync takes long, Valkey holds up to two seconds in memory.

        A run sends what is lost with these again; a bare chord does not.
        """
        self.store.set("written", 1)
        assert self.store.execute_command("WAITAOF", 1, 0, 30_000)[0] == 1

    def let_end(self, queue: str) -> None:
        for n in range(3):
            self.store.set(f"{queue}{n}:go", 1)


def test_a_chord_ends_although_every_process_of_the_farm_is_killed(farm: Farm) -> None:
    # Given a chord of chains over the three queues
    running = Running(farm)
    result = running.send_chord()
    # When in the middle the gpu worker is killed, then an openai worker, then Valkey, then a child of the cpu worker
    killed = [running.kill_worker_of("gpu")]
    running.let_end("gpu")
    until(lambda: all(running.store.llen(f"openai{n}:began") for n in range(3)))
    killed.append(running.kill_worker_of("openai"))
    running.wait_for_disk()
    kill(running.pid("valkey"))
    until(lambda: running_again(running))
    running.let_end("openai")
    killed.append(running.kill_worker_of("cpu"))
    running.let_end("cpu")
    # Then the chord ends with the same result, and all processes run again
    assert result.get(timeout=60) == 3
    assert all(running.store.llen(f"{name}:began") > running.store.llen(f"{name}:ended") for name in killed)
    until(lambda: all(one.alive for one in control.status(farm.folder).processes))
    assert farm.alive


def running_again(running: Running) -> bool:
    try:
        return bool(running.store.ping())
    except redis.RedisError:
        return False


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
    with control.start(dataclasses.replace(farm_spec(farm_folder), gpu_slots=2)) as farm:
        end_a_killer(farm)


def end_a_killer(farm: Farm) -> None:
    # Given a worker with two tasks, one of which kills it each time
    running, store = Running(farm), Store(connect(store_url(farm.redis_url)))
    for task, name in (("gpu.kill_recorded", "killer"), ("gpu.hold_recorded", "other")):
        running.app.send_task(task, (name,))
        until(lambda name=name: running.store.llen(f"{name}:began"))
    running.store.set("killer:go", 1)
    until(lambda: store.failures("run"), 150)
    # Then it alone has failed, the farm is up, and the other task ends
    [failure] = store.failures("run")
    assert failure.name == "killer" and "times the worker died or was lost while it ran this task" in failure.error
    assert farm.alive
    running.store.set("other:go", 1)
    until(lambda: running.store.llen("other:ended"))
    until(lambda: not running.app.connection_for_read().default_channel.client.hlen("unacked"))
    assert store.failures("run") == [failure]


def test_a_valkey_that_dies_while_the_farm_starts_is_the_reason_that_it_did_not(farm_folder: Path) -> None:
    def kill_valkey() -> None:
        until(lambda: any(one.name == "gpu" for one in control.status(farm_folder).processes))
        kill(next(one.pid for one in control.status(farm_folder).processes if one.name == "valkey"))

    with ThreadPoolExecutor(1) as pool, pytest.raises(FarmError, match="valkey ended with SIGKILL"):
        pool.submit(kill_valkey)
        control.start(farm_spec(farm_folder))
    assert processes_of(farm_folder) == []


def test_a_child_that_keeps_dying_stops_the_farm(farm: Farm, farm_folder: Path) -> None:
    # When the same process dies again and again
    def kill_again() -> bool:
        for one in control.status(farm_folder).processes:
            if one.name == "gpu" and one.alive:
                os.kill(one.pid, signal.SIGKILL)
        return not farm.alive

    until(kill_again, 30)
    # Then the farm has stopped and gives the reason
    assert "gpu died 5 times in 60 s, at last with SIGKILL" in (farm.failure() or "")
    assert processes_of(farm_folder) == []
