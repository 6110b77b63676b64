"""Where a target server listens, and that no other process is taken for it."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from farm_bench import until
from other_user import as_another_user, needs_root
from server_target import TINY_SERVER, http_client, server_reply, server_target

from tasks.gpu.host import TargetUnavailable
from tasks.http.address import unix_path
from tasks.private import runtime_path
from workers.processes.pid_records import PidRecords
from workers.sglang.host import LocalTargetHost
from workers.sglang.server import clear_temporary, listening_process, temporary_environment


@pytest.fixture
def host(tmp_path: Path) -> Iterator[LocalTargetHost]:
    host = LocalTargetHost(tmp_path, "gpu", {**os.environ, "PYTHONPATH": ""})
    yield host
    host.close()


def test_a_server_listens_on_a_socket_of_its_user_alone(host: LocalTargetHost) -> None:
    server = server_reply(host, server_target())
    path = Path(unix_path(host.serve(server_target())) or "")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert listening_process(path) == server["pid"]
    # And on nothing else
    assert [c for c in psutil.Process(int(str(server["pid"]))).net_connections("inet") if c.status == "LISTEN"] == []
    host.stop()
    assert not path.exists()


def test_temporary_files_of_a_server_are_in_a_folder_of_its_user_and_do_not_pile_up(tmp_path: Path) -> None:
    first = Path(temporary_environment(tmp_path / "records.json", {})["TMPDIR"])
    (first / "left-behind").touch()
    variables = temporary_environment(tmp_path / "records.json", {"TORCHINDUCTOR_CACHE_DIR": "/own"})
    assert variables == {"TMPDIR": str(first), "TORCHINDUCTOR_CACHE_DIR": "/own"}
    assert (list(first.iterdir()), stat.S_IMODE(first.stat().st_mode)) == ([], 0o700)
    assert (first.parent, clear_temporary(tmp_path / "records.json"), first.exists()) == (runtime_path(), first, False)


def test_each_start_has_a_key_and_a_socket_of_its_own(host: LocalTargetHost) -> None:
    first = (host.serve(server_target()), host.api_key(server_target()))
    host.stop()
    second = (host.serve(server_target()), host.api_key(server_target()))
    assert len({*first, *second}) == 4
    assert (
        http_client(second[0]).get("/server_info", headers={"Authorization": f"Bearer {first[1]}"}).status_code == 401
    )


@needs_root
def test_another_user_cannot_take_the_place_of_a_server_that_loads(host: LocalTargetHost, tmp_path: Path) -> None:
    # Given a server that loads
    go = tmp_path / "go"
    waiting = f"sh -c 'until test -e {go}; do sleep 0.05; done; exec {TINY_SERVER} \"$@\"' sh"
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(host.serve, server_target(waiting))
        records = PidRecords(tmp_path / "target-gpu.json")
        until(lambda: records.read() and "--port" in psutil.Process(records.read()[0].pid).cmdline())
        pid = records.read()[0].pid

        # When another user reads its command line, takes the port in any way, and looks for the socket
        def attack() -> list[str]:
            port = int(psutil.Process(pid).cmdline()[psutil.Process(pid).cmdline().index("--port") + 1])
            won = []
            for option in (None, socket.SO_REUSEADDR, socket.SO_REUSEPORT):
                with socket.socket() as taken:
                    if option is not None:
                        taken.setsockopt(socket.SOL_SOCKET, option, 1)
                    try:
                        taken.bind(("127.0.0.1", port))
                        taken.listen()
                        won.append(f"port {port}")
                    except OSError:
                        continue
            for name in ("environ", "fd"):
                if os.access(f"/proc/{pid}/{name}", os.R_OK):
                    won.append(name)
            return won

        assert as_another_user(attack) == []
        # Then the server gets its place, and its socket is closed to the other user
        go.touch()
        path = unix_path(asked.result())
        key = host.api_key(server_target())

        def reach() -> list[str]:
            with socket.socket(socket.AF_UNIX) as connection:
                reached = connection.connect_ex(str(path)) == 0
            lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
            return [*(["socket"] if reached else []), *[line for line in lines if str(key) in line]]

        assert as_another_user(reach) == []


def test_a_process_that_is_not_the_started_server_gets_no_request(host: LocalTargetHost) -> None:
    # Given a process beside the server that listens on its socket
    command = f"sh -c 'setsid {TINY_SERVER} \"$@\" & sleep 600' sh"
    with pytest.raises(TargetUnavailable, match=r"process \d+ listens on .*, and it is not the server") as raised:
        host.serve(server_target(command))
    [pid] = re.findall(r"process (\d+) listens", str(raised.value))
    os.kill(int(pid), signal.SIGKILL)
