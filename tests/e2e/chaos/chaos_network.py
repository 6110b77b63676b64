"""A proxy that can be cut or silent, in front of the endpoint and in place of the broker's socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import redis

CHUNK = 65536
Result = TypeVar("Result")


class Proxy:
    """Copies bytes between its clients and the server; both sides are Unix sockets or ports of 127.0.0.1.

    After `cut` it closes all connections and accepts none.  After `silence` it keeps the connections that it has open,
    without reading from them again.
    """

    def __init__(self, front: Path | int, behind: Path | int) -> None:
        self.front, self.behind, self.is_cut = front, behind, False
        self._open: set[asyncio.StreamWriter] = set()
        self._copying: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._server = self._do(self._listen())
        self._inode = front.stat().st_ino if isinstance(front, Path) else 0

    @property
    def port(self) -> int:
        return int(self._server.sockets[0].getsockname()[1])

    def cut(self) -> None:
        self.is_cut = True
        self._do(self._drop_all())

    def silence(self) -> int:
        """Copy nothing more for the connections that are open now.  Returns how many there are."""
        return self._do(self._stop_copying())

    def close(self) -> None:
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        # A server started meanwhile may have bound the path again; only our socket is removed.
        if isinstance(self.front, Path) and self.front.exists() and self.front.stat().st_ino == self._inode:
            self.front.unlink()

    def _do(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> asyncio.Server:
        if isinstance(self.front, Path):
            return await asyncio.start_unix_server(self._serve, self.front)
        return await asyncio.start_server(self._serve, "127.0.0.1", self.front)

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self.behind, Path):
            return await asyncio.open_unix_connection(self.behind)
        return await asyncio.open_connection("127.0.0.1", self.behind)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.is_cut:
                raise ConnectionError
            far_reader, far_writer = await self._reach()
        except OSError:
            writer.close()
            return
        self._open |= {writer, far_writer}
        ways = ((reader, far_writer), (far_reader, writer))
        copying = {asyncio.create_task(self._copy(*way)) for way in ways}
        self._copying |= copying
        await asyncio.wait(copying)
        self._copying -= copying
        if not any(task.cancelled() for task in copying):
            self._open -= {writer, far_writer}

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(CHUNK):
                writer.write(piece)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()

    async def _stop_copying(self) -> int:
        for task in self._copying:
            task.cancel()
        return len(self._copying) // 2

    async def _drop_all(self) -> None:
        for writer in tuple(self._open):
            writer.transport.abort()

    async def _stop(self) -> None:
        self._server.close()
        await self._drop_all()
        # When both sides are closed each copying task ends.
        if copying := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(copying, timeout=5)


@contextmanager
def unreachable(socket: Path, real: Path) -> Iterator[None]:
    """Within the block the broker behind `socket` cannot be reached, although it runs."""
    os.rename(socket, real)
    try:
        disconnect_all(real)
        yield
    finally:
        # A farm that ended meanwhile has removed the folder of the socket; a new broker has bound the path again.
        with contextlib.suppress(FileNotFoundError):
            if socket.parent.is_dir() and not socket.exists():
                os.rename(real, socket)
        real.unlink(missing_ok=True)


def silenced(socket: Path, real: Path, settle: Callable[[], object]) -> Proxy:
    """All connections to the broker stay open and are silent; new ones reach it.

    `settle` gives the clients time to connect through the proxy.  The connections are silent until it is closed.
    """
    os.rename(socket, real)
    proxy = Proxy(socket, real)
    try:
        disconnect_all(real)
        settle()
        proxy.silence()
    finally:
        if socket.parent.is_dir():
            os.rename(real, socket)
    return proxy


def disconnect_all(socket: Path) -> None:
    """Have the server close every connection but this one."""
    with contextlib.suppress(redis.RedisError), redis.Redis(unix_socket_path=str(socket), socket_timeout=5) as client:
        for kind in ("normal", "pubsub"):
            client.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
