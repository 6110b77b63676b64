"""A second user of the machine tries what it can against a run at work on an embedded farm, and gets nothing."""

from __future__ import annotations

import os
import signal
import socket
import stat
from pathlib import Path
from typing import Any

import psutil
import pytest
from other_user import as_another_user, needs_root, readable_files, shared_folder
from run_folder import RunFolder, finish, wait_until

from tasks.common.files import runtime_path

SECRETS = ("KEY", "PASSWORD", "TOKEN")  # in the names of environment variables


def tried(folder: Path, pids: list[int], sockets: list[str]) -> dict[str, Any]:
    """What this user has reached, and all command lines that it sees."""
    lines = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    files = [*readable_files(folder), *readable_files(runtime_path()), *(f"/proc/{pid}/environ" for pid in pids)]
    return {
        "sockets": [path for path in sockets if socket.socket(socket.AF_UNIX).connect_ex(path) == 0],
        "files": [path for path in files if os.access(path, os.R_OK)],
        "lines": "\n".join(" ".join(line) for line in lines),
    }


@pytest.mark.long
@needs_root
def test_no_socket_file_environment_or_secret_of_a_run_is_open_to_another_user() -> None:
    with shared_folder() as shared:
        run, before = RunFolder(shared), os.umask(0)
        try:
            # Given a run whose target and endpoint have answered
            process, prompts = run.start(NGEN="20"), run.output / "reflector_prompts"
            wait_until(lambda: list(prompts.glob("*")) or process.poll() is not None, "a reply of the reflector")
            assert process.poll() is None, process.communicate()[0]
            found = run.processes()
            connections = [c for one in found for c in one.net_connections("inet") if c.status in ("LISTEN", "NONE")]
            lines = Path("/proc/net/unix").read_text().splitlines()
            sockets = sorted({line.split()[-1] for line in lines if "whetstone-" in line})
            named = [pair for one in found for pair in one.environ().items()]
            secrets = {value for name, value in named if name.endswith(SECRETS) and len(value) > 8}
            # Then no port is open to anybody, and another user gets nothing
            assert connections == [] and secrets and len(sockets) >= 3  # of Valkey, of the target and of the endpoint
            assert list(run.output.iterdir()) and list(run.farm.rglob("*.aof*"))
            got = as_another_user(lambda: tried(run.folder, [one.pid for one in found], sockets))
            assert (got["sockets"], got["files"]) == ([], [])
            assert "workers" in got["lines"] and [one for one in secrets if one in got["lines"]] == []
            # And the files themselves are closed, not only the folders that they are in
            paths = [path for path in run.folder.rglob("*") if not path.is_symlink()]
            assert {str(path) for path in paths if stat.S_IMODE(path.lstat().st_mode) & 0o077} == set()
            process.send_signal(signal.SIGINT)
            finish(process)
        finally:
            os.umask(before)
            run.clear()
