"""Where SGLang listens, on uvicorn and a stand-in for its start, whose warm-up thread asks the server's port."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from farm_bench import until
from server_target import http_client

from tasks.common.files import unix_url
from workers.steering import DESCRIPTOR_VARIABLE, SOCKET_VARIABLE

# SGLang's order: the plugin is loaded, the model is loaded, uvicorn starts, and then the warm-up thread asks.
SERVER = """
import os, sys, threading, time, urllib.request, uvicorn
from workers.steering.farm import take_listening

listening = take_listening(os.environ)
assert not any("WHETSTONE_TARGET" in name for name in os.environ)
original = uvicorn.Server.startup
uvicorn.Server.startup = lambda server, sockets=None: listening.start_up(original, server, sockets)
port = int(sys.argv[1])

def warm_up():
    while True:
        try:
            assert urllib.request.urlopen(f"http://127.0.0.1:{port}/").read() == b"ok"
            break
        except OSError:
            time.sleep(0.02)
    print("warm", flush=True)
    listening.end_warm_up(None)

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        threading.Thread(target=warm_up).start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
    else:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
"""


def test_a_server_warms_up_on_its_port_and_then_listens_on_its_socket_alone(tmp_path: Path) -> None:
    path = tmp_path / "server.sock"
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        address = port.getsockname()
        own = {SOCKET_VARIABLE: str(path), DESCRIPTOR_VARIABLE: str(port.fileno())}
        command = [sys.executable, "-c", SERVER, str(address[1])]
        server = subprocess.Popen(
            command, env={**os.environ, **own}, pass_fds=[port.fileno()], stdout=subprocess.PIPE, text=True
        )
    try:
        # Then the warm-up is answered at the port, which is closed after it
        assert server.stdout is not None and server.stdout.readline() == "warm\n"
        until(lambda: socket.socket().connect_ex(address) != 0)
        # And requests are answered on the socket, which only its user may open
        assert http_client(unix_url(path)).get("/").content == b"ok"
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        server.terminate()
        server.wait(10)
