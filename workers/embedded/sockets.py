"""The Unix sockets of an embedded farm, in this user's private folder: nobody else may connect, nor hold connections.

Their paths must be under 107 bytes, so they are not in the farm's folder.
"""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

from tasks.common.files import is_own_folder, runtime_folder, runtime_socket


def farm_socket(server: str, folder: Path) -> Path:
    """The path of a server's socket for this farm folder, always the same.  Creates nothing."""
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:12]
    return runtime_socket(f"{server}-{name}")


def listen_privately(path: Path) -> socket.socket:
    """A socket that listens at a path of `farm_socket`, in place of what a killed farm left there."""
    runtime_folder()
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        listener.listen(socket.SOMAXCONN)
    except BaseException:
        listener.close()
        raise
    return listener


def remove_farm_socket(server: str, folder: Path) -> None:
    """Remove the socket, if it exists in this user's folder for sockets."""
    path = farm_socket(server, folder)
    if is_own_folder(path.parent):
        path.unlink(missing_ok=True)
