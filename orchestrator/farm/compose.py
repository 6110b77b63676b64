"""The farm that `docker compose up` runs in a folder, for commands on the same machine.

Its Valkey listens on a Unix socket in secrets/, a folder that only the owner of the clone can enter.
"""

from __future__ import annotations

import re
import socket
import stat
from pathlib import Path

from tasks.common.files import LONGEST_SOCKET_PATH, OTHERS, is_own_folder
from tasks.store.client import ENVIRONMENT_VARIABLE, PASSWORD_VARIABLE, AddressError, redis_url_of

SECRETS = Path("secrets")
SOCKET = SECRETS / "socket" / "valkey.sock"
PASSWORD = SECRETS / "broker" / "valkey_password"
CONFIG = Path("ops/compose.config")
"""The settings of a run on such a farm, where a user has none."""
ANSWER_S = 2.0


def compose_address(folder: Path) -> str | None:
    """The address of the compose farm of a folder, with its password; None where none is up."""
    path = folder.resolve() / SOCKET
    if not _is_private(folder / SECRETS) or not path.is_socket():
        return None
    if len(str(path).encode()) > LONGEST_SOCKET_PATH or re.search(r"[?#%]", str(path)):
        raise AddressError(
            f"{path}: an address cannot have this path (at most {LONGEST_SOCKET_PATH} bytes, without ? # %);"
            f" move the clone, or set {ENVIRONMENT_VARIABLE}"
        )
    if not _answers(path):
        return None
    here = {ENVIRONMENT_VARIABLE: f"unix://{path}?db=0", f"{PASSWORD_VARIABLE}_FILE": str(folder / PASSWORD)}
    return redis_url_of(here)


def unused_reason(folder: Path) -> str:
    """Why `compose_address` finds no farm in a clone that was made ready for one; "" in any other folder."""
    if not (folder / CONFIG).is_file() or not (folder / SECRETS).is_dir():
        return ""
    if not _is_private(folder / SECRETS):
        return f"{SECRETS}/ is not used: it must be yours, no link, and closed to others (chmod 700 {SECRETS})"
    return f"no farm of docker compose answers at {SOCKET}; `docker compose up --detach` starts it"


def _is_private(folder: Path) -> bool:
    """Whether no other user can have put anything into the folder."""
    return is_own_folder(folder) and not stat.S_IMODE(folder.stat().st_mode) & OTHERS


def _answers(path: Path) -> bool:
    """Whether somebody listens: a farm that was killed leaves its socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(ANSWER_S)
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True
