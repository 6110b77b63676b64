"""A second user of the machine tries what it can against a run at work on an embedded farm, and gets nothing."""

from __future__ import annotations

import os
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from other_user import as_another_user, needs_root, readable_files, shared_folder
from run_folder import RunFolder, wait_until

from tasks.common.files import runtime_path

pytestmark = [pytest.mark.long, needs_root]
SECRETS = ("KEY", "PASSWORD", "TOKEN")  # in the names of environment variables


class AtWork(NamedTuple):
    """A run whose target and endpoint have answered; what root knows of its processes."""

    run: RunFolder
    pids: list[int]
    ports: list[int]
    sockets: list[str]
    secrets: list[str]


@pytest.fixture(scope="module")
def at_work() -> Iterator[AtWork]:
    with shared_folder() as shared:
        run, before = RunFolder(shared), os.umask(0)
        try:
            process = run.start(NGEN="20")
            wait_until(
                lambda: list((run.output / "reflector_prompts").glob("*")) or process.poll() is not None,
                "a reply of the reflector",
            )
            assert process.poll() is None, process.communicate()[0]
            yield seen_by_root(run)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        finally:
            os.umask(before)
            run.clear()


def seen_by_root(run: RunFolder) -> AtWork:
    found = run.processes()
    listening = [c for process in found for c in process.net_connections("all") if c.status in ("LISTEN", "NONE")]
    names = {line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if "whetstone-" in line}
    secrets = {
        value
        for process in found
        for name, value in process.environ().items()
        if name.endswith(SECRETS) and len(value) > 8
    }
    ports = {c.laddr.port for c in listening if c.family in (socket.AF_INET, socket.AF_INET6)}
    return AtWork(run, [process.pid for process in found], sorted(ports), sorted(names), sorted(secrets))


def test_no_port_is_open_to_anybody_and_no_socket_to_another_user(at_work: AtWork) -> None:
    assert at_work.ports == []
    assert len(at_work.sockets) >= 3  # of Valkey, of the target and of the endpoint

    def connect() -> list[str]:
        return [path for path in at_work.sockets if socket.socket(socket.AF_UNIX).connect_ex(path) == 0]

    assert as_another_user(connect) == []


def test_no_file_or_environment_can_be_read(at_work: AtWork) -> None:
    assert list(at_work.run.output.iterdir()) and list(at_work.run.farm.rglob("*.aof*"))

    def read() -> list[str]:
        found = readable_files(at_work.run.folder) + readable_files(runtime_path())
        return found + [f"/proc/{pid}/environ" for pid in at_work.pids if os.access(f"/proc/{pid}/environ", os.R_OK)]

    assert as_another_user(read) == []
    # And the files themselves are closed, not only the folders that they are in
    modes = {
        path: stat.S_IMODE(path.lstat().st_mode) for path in at_work.run.folder.rglob("*") if not path.is_symlink()
    }
    assert {str(path): oct(mode) for path, mode in modes.items() if mode & 0o077} == {}


def test_no_secret_is_in_a_command_line(at_work: AtWork) -> None:
    def lines() -> str:
        found = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
        return "\n".join(" ".join(line or ()) for line in found)

    seen = as_another_user(lines)
    assert "workers" in seen
    assert [secret for secret in at_work.secrets if secret in seen] == []
