"""A port of 127.0.0.1 for a server on a Unix socket: an OpenAI client is given a host and a port."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tasks.http.address import unix_path

CHUNK = 65_536


@contextmanager
def open_port(url: str) -> Iterator[str]:
    """The address of a port that passes everything on to the server at `url`; `url` itself where that is a port."""
    path = unix_path(url)
    if path is None:
        yield url
        return
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_unix_connection(path)
        with suppress(OSError):
            await asyncio.gather(_pass_on(reader, requests), _pass_on(answers, writer))

    listening = asyncio.run_coroutine_threadsafe(asyncio.start_server(serve, "127.0.0.1", 0), loop).result()
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()
