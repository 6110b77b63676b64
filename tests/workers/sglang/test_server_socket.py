"""Where a target server listens."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from server_target import http_client, server_reply, server_target

from tasks.common.files import runtime_path, unix_path
from workers.embedded.farm import FarmFiles
from workers.processes import clear_temporary
from workers.sglang.host import LocalTargetHost
from workers.sglang.server import temporary_environment


@pytest.fixture
def host(tmp_path: Path) -> Iterator[LocalTargetHost]:
    host = LocalTargetHost(tmp_path, "gpu", {**os.environ, "PYTHONPATH": ""})
    yield host
    host.close()


def test_a_server_listens_on_a_socket_of_its_user_alone(host: LocalTargetHost) -> None:
    server = server_reply(host, server_target())
    path = Path(unix_path(host.serve(server_target())) or "")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
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
    clear_temporary(tmp_path / "records.json")
    assert (first.parent, first.exists()) == (runtime_path(), False)


def test_what_the_server_of_a_killed_worker_left_is_removed_by_the_next_worker_and_with_the_farm(
    host: LocalTargetHost, tmp_path: Path
) -> None:
    for remove in (host.clear_leftovers, FarmFiles(tmp_path).clear):
        left = Path(temporary_environment(tmp_path / "target-gpu.json", {})["TMPDIR"])
        assert left.is_dir()
        remove()
        assert not left.exists()


def test_each_start_has_a_key_and_a_socket_of_its_own(host: LocalTargetHost) -> None:
    first = (host.serve(server_target()), host.api_key(server_target()))
    host.stop()
    second = (host.serve(server_target()), host.api_key(server_target()))
    assert len({*first, *second}) == 4
    assert (
        http_client(second[0]).get("/server_info", headers={"Authorization": f"Bearer {first[1]}"}).status_code == 401
    )
