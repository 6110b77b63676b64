"""Whose an embedded farm is: no other user, process or clock brings a second one into its folder."""

from __future__ import annotations

import dataclasses
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from farm_bench import until
from farm_processes import farm_spec, processes_of
from other_user import as_another_user, needs_root, shared_folder

from tasks.common.files import runtime_path
from workers.embedded import farm as control
from workers.embedded.farm import FarmError
from workers.embedded.valkey import socket_path

pytestmark = pytest.mark.usefixtures("module_environment")


@needs_root
def test_a_farm_does_not_start_in_a_folder_that_another_user_has_made() -> None:
    with shared_folder() as shared:
        as_another_user((shared / "farm").mkdir)
        with pytest.raises(FarmError, match=r"cannot use .*/farm: it belongs to another user"):
            control.start(farm_spec(shared / "farm"))
        assert list((shared / "farm").iterdir()) == []


@needs_root
def test_a_link_that_another_user_has_planted_costs_no_farm_its_socket(
    farm_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shared_folder() as shared:
        # Given a folder of this user with a socket, and a link to it in the place of the folder for sockets
        own = tmp_socket(shared / "own", socket_path(farm_folder).name)
        monkeypatch.setenv("TMPDIR", str(shared))
        monkeypatch.setattr("tempfile.tempdir", None)  # TMPDIR is read again
        place = runtime_path()
        as_another_user(lambda: place.symlink_to(own.parent))
        # When a farm is stopped that is not up, and when one is started
        control.down(farm_folder)
        assert own.exists()
        with pytest.raises(FarmError, match="belongs to another user"):
            control.start(farm_spec(farm_folder))
        # Then nothing behind the link was touched
        assert own.exists()


def tmp_socket(folder: Path, name: str) -> Path:
    folder.mkdir()
    path = folder / name
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    return path


OWNER = """
import json, signal, sys
from workers.embedded import farm as control
from workers.embedded.farm import FarmSpec
farm = control.start(FarmSpec(**json.loads(sys.argv[1])))
print("up", flush=True)
signal.pause()
"""


@pytest.fixture
def owner(farm_folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has started a farm in the folder."""
    command = [sys.executable, "-c", OWNER, json.dumps(dataclasses.asdict(farm_spec(farm_folder)))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process
        process.kill()


def test_a_farm_of_another_process_cannot_be_used_or_stopped(farm_folder: Path, owner: subprocess.Popen[str]) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: control.start(farm_spec(farm_folder)),
        lambda: control.attach_or_start(farm_spec(farm_folder)),
        lambda: control.down(farm_folder),
    ]
    for attempt in attempts:
        with pytest.raises(FarmError, match=f"belongs to process {owner.pid}"):
            attempt()
    assert control.status(farm_folder).owner_pid == owner.pid
    # When its owner is killed, then the farm stops by itself, in order
    owner.kill()
    until(lambda: processes_of(farm_folder) == [], 15)
    assert "the farm is down" in (farm_folder / "logs" / "supervisor.log").read_text()


def test_a_second_valkey_is_refused_the_data_of_the_first(farm_folder: Path, owner: subprocess.Popen[str]) -> None:
    # Given a farm whose records of processes are gone
    for path in farm_folder.glob("*.json"):
        path.unlink()
    # When another farm is started in the folder, then it fails before it opens the append-only file
    with pytest.raises(FarmError, match=r"another Valkey uses the data in .*; stop the farm"):
        control.start(farm_spec(farm_folder))
    assert owner.poll() is None


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
