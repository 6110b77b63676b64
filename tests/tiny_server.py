"""A target server without a model: it has /health, reports its arguments, and can become unhealthy.

`tiny_server.py [--fail REASON] [--die-once FILE] --model-path M --host H --port P ...`

It answers every prompt with the prompt's length.  With `--die-once` it exits after three answers if FILE does not
exist, and creates FILE.  With `--version-file` it reports the text of FILE as its version.
"""

import argparse
import json
import os
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

parser = argparse.ArgumentParser()
parser.add_argument("--fail")
parser.add_argument("--model-path", required=True)
parser.add_argument("--host", required=True)
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--size", type=int)
parser.add_argument("--die-once", type=Path)
parser.add_argument("--version-file", type=Path)
parser.add_argument("--enable-custom-logit-processor", action="store_true")
parser.add_argument("--disable-overlap-schedule", action="store_true")
parser.add_argument("--config", type=Path, required=True)
arguments = parser.parse_args()
# As in SGLang: YAML with one entry, parsed like an argument, and written to the log.
given = argparse.ArgumentParser()
given.add_argument("--api-key", required=True)
[entry] = yaml.safe_load(arguments.config.read_text()).items()
API_KEY = given.parse_args([f"--{entry[0]}", str(entry[1])]).api_key
print(f"{arguments.config.stat().st_mode & 0o777:o} api_key={API_KEY}", flush=True)
if arguments.fail:
    raise SystemExit(arguments.fail)


VERSION = arguments.version_file.read_text() if arguments.version_file else "0.0.tiny"


class Handler(BaseHTTPRequestHandler):
    answered = 0
    is_unhealthy = False

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.refused():
            return
        Handler.answered += 1
        if arguments.die_once and Handler.answered > 3 and not arguments.die_once.exists():
            arguments.die_once.touch()
            os._exit(1)
        length, reason = len(asked["input_ids"]), {"type": "stop", "matched": 2}
        meta = {"finish_reason": reason, "prompt_tokens": length, "completion_tokens": 2, "cached_tokens": 0}
        self.reply(200, {"text": f"{length} {os.getpid()}", "output_ids": [length, 2], "meta_info": meta})

    def refused(self) -> bool:
        authorized = self.headers["Authorization"] == f"Bearer {API_KEY}"
        if not authorized:
            self.send_error(401)
        return not authorized

    def do_GET(self) -> None:
        if self.path != "/health" and self.refused():
            return
        from whetstone_steering import request  # as the real server must be able to

        process = {"pid": os.getpid(), "labels": os.environ["WHETSTONE_LABELS"], "steering": request.__name__}
        process["prefix_cache"] = os.environ["WHETSTONE_PREFIX_CACHE"]
        info = {**process, "model_path": arguments.model_path, "size": arguments.size, "version": VERSION}
        if self.path == "/become-unhealthy":
            Handler.is_unhealthy = True
        unhealthy = self.path == "/health" and Handler.is_unhealthy
        self.reply(503 if unhealthy else 200, info)

    def reply(self, status: int, content: dict[str, object]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class UnixServer(ThreadingHTTPServer):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "localhost", 0

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        return self.socket.accept()[0], ("", 0)


UnixServer(os.environ["WHETSTONE_TARGET_SOCKET"], Handler).serve_forever()  # type: ignore[arg-type]
