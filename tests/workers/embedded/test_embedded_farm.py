"""The embedded farm: its start, its restarts, and that no process is left, in whatever way its owner ends."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import redis
from celery import chain, chord
from clock_step import after_clock_step
from farm_bench import until
from other_user import as_another_user, needs_root, shared_folder

from tasks.private import runtime_path
from tasks.store.address import ENVIRONMENT_VARIABLE, store_url
from tasks.store.client import connect
from workers.app import create_app
from workers.embedded import control
from workers.embedded.control import Farm, FarmBusy, FarmError
from workers.embedded.farm import FarmSpec
from workers.embedded.valkey import socket_path
from workers.processes.log_files import LOG_BYTES
from workers.queues import MODULES_VARIABLE

pytestmark = pytest.mark.usefixtures("module_environment")


def spec(folder: Path) -> FarmSpec:
    return FarmSpec(str(folder), openai_workers=2, embedded_endpoint=False, visibility_timeout=3.0)


def processes_of(folder: Path) -> list[psutil.Process]:
    """Every living process that has the farm's folder in its command line, its environment or its name."""
    found = []
    for process in psutil.process_iter():
        try:
            text = " ".join([*process.cmdline(), *process.environ().values()])
            if str(folder) in text and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def socket_of(url: str) -> Path:
    return Path(url.removeprefix("unix://").partition("?")[0])


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "farm"
    control.down(tmp_path / "farm")


@pytest.fixture
def farm(folder: Path) -> Iterator[Farm]:
    with control.start(spec(folder)) as farm:
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


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


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


@needs_root
def test_a_farm_does_not_start_in_a_folder_that_another_user_has_made() -> None:
    with shared_folder() as shared:
        as_another_user((shared / "farm").mkdir)
        with pytest.raises(FarmError, match=r"cannot use .*/farm: it belongs to another user"):
            control.start(spec(shared / "farm"))
        assert list((shared / "farm").iterdir()) == []


@needs_root
def test_a_link_that_another_user_has_planted_costs_no_farm_its_socket(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shared_folder() as shared:
        # Given a folder of this user with a socket, and a link to it in the place of the folder for sockets
        own = tmp_socket(shared / "own", socket_path(folder).name)
        monkeypatch.setenv("TMPDIR", str(shared))
        monkeypatch.setattr("tempfile.tempdir", None)  # TMPDIR is read again
        place = runtime_path()
        as_another_user(lambda: place.symlink_to(own.parent))
        # When a farm is stopped that is not up, and when one is started
        control.down(folder)
        assert own.exists()
        with pytest.raises(FarmError, match="belongs to another user"):
            control.start(spec(folder))
        # Then nothing behind the link was touched
        assert own.exists()


def tmp_socket(folder: Path, name: str) -> Path:
    folder.mkdir()
    path = folder / name
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    return path


def test_a_stopped_farm_leaves_no_process_and_no_socket(folder: Path) -> None:
    before = os.umask(0)
    with control.start(spec(folder)) as farm:
        os.umask(before)
        status = control.status(folder)
        assert status.up
        assert [one.name for one in status.processes] == ["supervisor", "valkey", "gpu", "openai1", "openai2", "cpu"]
        assert all(one.alive and one.rss > 0 for one in status.processes)
        assert len(processes_of(folder)) >= 6
        assert socket_of(farm.redis_url).exists()
        # And its data is open to its user alone, whatever the umask
        files = [folder, *(folder / "valkey").rglob("*")]
        assert len(files) > 3
        assert [path for path in files if path.stat().st_mode & 0o077] == []
    assert processes_of(folder) == []
    assert not socket_of(farm.redis_url).exists()
    assert not control.status(folder).up


def test_a_farm_bounds_its_memory_and_its_logs(farm: Farm) -> None:
    # Given a log that has grown beyond its limit
    log = farm.folder / "logs" / "cpu.log"
    with log.open("ab") as file:
        file.write(b"x" * (LOG_BYTES + 1))
    # Then it is rotated while its worker writes, and Valkey has a limit and evicts nothing
    until(lambda: log.with_name("cpu.log.1").exists(), 15)
    assert log.stat().st_size < LOG_BYTES < log.with_name("cpu.log.1").stat().st_size
    with connect(store_url(farm.redis_url)) as client:
        limits = client.config_get("maxmemory*")
    assert (limits["maxmemory-policy"], int(limits["maxmemory"])) == ("noeviction", 2048 * 2**20)


def test_the_next_start_ends_what_a_killed_supervisor_left_running(folder: Path) -> None:
    # Given a farm whose supervisor is killed while its Valkey is stopped
    farm = control.start(spec(folder))
    pids = {one.name: one.pid for one in control.status(folder).processes}
    os.kill(pids["valkey"], signal.SIGSTOP)
    kill(pids["supervisor"])
    # When the next one starts in that folder, then no process of the old one runs
    with control.start(spec(folder)) as again:
        assert again.redis_url == farm.redis_url
        assert not any(process.pid in pids.values() for process in processes_of(folder))
    farm.stop()
    assert processes_of(folder) == []


OWNER = """
import signal, sys
from pathlib import Path
from workers.embedded import control
from workers.embedded.farm import FarmSpec
from workers.embedded.valkey import socket_path
farm = control.start(FarmSpec.from_json(Path(sys.argv[1]).read_text()))
print("up", flush=True)
signal.pause()
"""


@pytest.fixture
def owner(folder: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has started a farm in the folder."""
    (tmp_path / "spec.json").write_text(spec(folder).to_json())
    command = [sys.executable, "-c", OWNER, str(tmp_path / "spec.json")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process
        process.kill()


def test_a_farm_of_another_process_cannot_be_used_or_stopped(folder: Path, owner: subprocess.Popen[str]) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: control.start(spec(folder)),
        lambda: control.attach(folder),
        lambda: control.down(folder),
    ]
    for attempt in attempts:
        with pytest.raises(FarmBusy, match=f"belongs to process {owner.pid}"):
            attempt()
    assert control.status(folder).owner_pid == owner.pid
    # When its owner is killed, then the farm stops by itself, in order
    owner.kill()
    until(lambda: processes_of(folder) == [], 15)
    assert "the farm is down" in (folder / "logs" / "supervisor.log").read_text()


SECOND_START = """
import sys
from pathlib import Path
from workers.embedded import control
from workers.embedded.farm import FarmSpec
from workers.embedded.valkey import socket_path
try:
    control.start(FarmSpec.from_json(Path(sys.argv[1]).read_text()))
except control.FarmError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


def test_a_step_of_the_clock_hides_no_farm_that_is_up(
    folder: Path, owner: subprocess.Popen[str], tmp_path: Path
) -> None:
    # Given a farm that is up, and a process whose wall clock is an hour ahead of that of the farm's start
    before = control.status(folder).processes
    second = after_clock_step([sys.executable, "-c", SECOND_START, str(tmp_path / "spec.json")], 3600)
    # Then it sees the farm and its owner, and starts no second Valkey on the same data
    assert f"FarmBusy: the farm in {folder} belongs to process {owner.pid}" in second.stderr
    assert [(one.name, one.pid, True) for one in before] == [
        (one.name, one.pid, one.alive) for one in control.status(folder).processes
    ]


def test_a_second_valkey_is_refused_the_data_of_the_first(folder: Path, owner: subprocess.Popen[str]) -> None:
    # Given a farm whose records of processes are gone
    for path in folder.glob("*.json"):
        path.unlink()
    # When another farm is started in the folder, then it fails before it opens the append-only file
    with pytest.raises(FarmError, match=r"another Valkey uses the data in .*; stop the farm"):
        control.start(spec(folder))
    assert owner.poll() is None


def test_a_farm_started_by_up_is_used_and_left_running(folder: Path) -> None:
    assert control.attach(folder) is None
    control.up(spec(folder))
    with control.attach_or_start(spec(folder)) as used:
        assert (used.owned, used.alive) == (False, True)
        with pytest.raises(FarmBusy, match="up in"):
            control.start(spec(folder))
    assert control.status(folder).up
    assert control.down(folder)
    assert processes_of(folder) == []
    assert not control.down(folder)


def test_a_farm_that_cannot_start_gives_the_reason_and_leaves_no_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MODULES_VARIABLE, "no_such_module")
    with pytest.raises(FarmError, match=r"ended with status 1[\s\S]*No module named 'no_such_module'"):
        control.start(spec(folder))
    assert processes_of(folder) == []


def test_a_child_that_keeps_dying_stops_the_farm(farm: Farm, folder: Path) -> None:
    # When the same process dies again and again
    def kill_again() -> bool:
        for one in control.status(folder).processes:
            if one.name == "gpu" and one.alive:
                os.kill(one.pid, signal.SIGKILL)
        return not farm.alive

    until(kill_again, 30)
    # Then the farm has stopped and gives the reason
    assert "gpu died 5 times in 60 s, at last with SIGKILL" in (farm.failure() or "")
    assert processes_of(folder) == []
