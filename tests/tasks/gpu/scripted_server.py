"""A server of /generate whose replies a test writes, and the target host that has it."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from http_thread import http_server

from tasks.gpu.target import GenerateRequest
from workers.embedded.models import embedded_model

Script = Callable[[int, dict[str, Any]], tuple[int, Any]]


@contextmanager
def server(script: Script) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that answers its n-th request, counted from 1, with the script's status and JSON; 0 hangs up."""
    seen: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append(asked)
            status, reply = script(len(seen), asked)
            if status == 0:
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

    with http_server(Handler) as url:
        yield url, seen


def reply_of(ids: list[int], reason: dict[str, Any]) -> dict[str, Any]:
    meta = {"finish_reason": reason, "prompt_tokens": 2, "completion_tokens": len(ids), "cached_tokens": 1}
    return {"text": "x", "output_ids": ids, "meta_info": meta}


GOOD = reply_of([5, 2], {"type": "stop", "matched": 2})


def request_of(**changes: Any) -> GenerateRequest:
    fields: dict[str, Any] = {
        "input_ids": (1, 2), "max_new_tokens": 4, "temperature": 0.0, "top_p": 1.0, "seed": 7, "stop_token_ids": (2,),
    }  # fmt: skip
    return GenerateRequest(**fields | changes)


class ScriptedHost:
    """A `TargetHost` of running servers: each call of `serve` gives the next URL, and then the last."""

    def __init__(self, *urls: str, folder: Path = Path()) -> None:
        self.urls, self.folder = list(urls), folder
        self.served: list[tuple[str, Any]] = []  # the processor and the identity that each call asked for

    def serve(self, target: Any, processor: str = "", identity: Any = None) -> str:
        self.served.append((processor, identity))
        return self.urls.pop(0) if len(self.urls) > 1 else self.urls[0]

    def serving(self, target: Any) -> Any:
        return nullcontext()

    def start_early(self, target: Any) -> None:
        pass

    def identity(self, target: Any) -> dict[str, Any]:
        return {"version": "1", "context_length": 512}

    def labels_folder(self) -> Path:
        return self.folder

    def model_folder(self, target: Any) -> str:
        return str(embedded_model())

    def api_key(self, target: Any) -> str:
        return "a-key"
