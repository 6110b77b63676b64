"""What is different in a SGLang server that a worker has started: where it listens, and what it keeps.  Needs uvicorn.

SGLang listens on a TCP port only: a user who takes it while the server loads, or after it died, would get the requests
and their key.  So the worker names a socket in a private folder (`WHETSTONE_TARGET_SOCKET`), and uvicorn serves there.
SGLang's warm-up sends requests, with the key, to its own port, which the worker has bound before
(`WHETSTONE_TARGET_FD`), and which is closed when the server is warm.

SGLang keeps the keys and values of every prompt and answer until it needs their memory, and then answers at half the
rate (0.5.16: `RadixCache.evict`).  No request of a farm continues an answer.  So where `WHETSTONE_PREFIX_CACHE` is
"prompts", an answer that has ended frees its memory at once.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from . import DESCRIPTOR_VARIABLE, SOCKET_VARIABLE

STARTED_S = 10.0  # the warm-up may be skipped, and its thread then ends before the server listens
CACHES = (
    "sglang.srt.mem_cache.radix_cache.RadixCache",
    "sglang.srt.mem_cache.unified_radix_cache.UnifiedRadixCache",
)
"""Those of models with full attention.  A prompt is inserted when it has been read, an answer when it has ended."""


class Listening:
    """The listening sockets of one server process, given to uvicorn in place of its host and port."""

    def __init__(self, path: Path, port: socket.socket) -> None:
        self._path = path
        self._port = port
        self._started = threading.Event()
        self._close_port: Callable[[], object] = lambda: None

    async def start_up(self, original: Callable[..., Awaitable[None]], server: Any, sockets: Any = None) -> None:
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._path))
        self._path.chmod(0o600)
        await original(server, sockets=[listener, self._port])
        loop, [_, port] = asyncio.get_running_loop(), server.servers
        self._close_port = lambda: loop.call_soon_threadsafe(port.close)
        self._started.set()

    def end_warm_up(self, _: Any, *args: Any, **options: Any) -> None:
        """After SGLang's warm-up, in a thread of its own: nothing needs the TCP port any more."""
        if self._started.wait(STARTED_S):
            self._close_port()


def take_listening(environment: MutableMapping[str, str]) -> Listening | None:
    """What the worker has prepared for this process; None in any other, which inherits no descriptor."""
    path, descriptor = environment.pop(SOCKET_VARIABLE, ""), environment.pop(DESCRIPTOR_VARIABLE, "")
    if not path or not descriptor:
        return None
    os.set_inheritable(int(descriptor), False)
    return Listening(Path(path), socket.socket(fileno=int(descriptor)))


def free_answer(original: Callable[..., Any], cache: Any, request: Any, is_insert: bool = True, **options: Any) -> Any:
    """`cache_finished_req` of a cache without inserting, which frees what the request has beyond its prompt."""
    return original(cache, request, is_insert=False, **options)
