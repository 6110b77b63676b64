"""A server that has health, says what it was started with, and can fall sick: a target server's shape without its work.

`tiny_server.py [--fail REASON] --model-path M --host H --port P ...`
"""

import argparse
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--fail")
parser.add_argument("--model-path", required=True)
parser.add_argument("--host", required=True)
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--size", type=int)
parser.add_argument("--config", type=Path, required=True)
arguments = parser.parse_args()
# As SGLang has it: YAML of one entry, and all of it in the log.
API_KEY = arguments.config.read_text().removeprefix("api-key:").strip()
print(f"{arguments.config.stat().st_mode & 0o777:o} api_key={API_KEY}", flush=True)
if arguments.fail:
    raise SystemExit(arguments.fail)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path != "/health" and self.headers["Authorization"] != f"Bearer {API_KEY}":
            self.send_error(401)
            return
        from whetstone_steering import parameters  # as the real server must be able to

        known = {"pid": os.getpid(), "labels": os.environ["WHETSTONE_LABELS"], "steering": parameters.__name__}
        told = {**known, "model_path": arguments.model_path, "size": arguments.size, "version": "0.0.tiny"}
        body = json.dumps(told).encode()
        if self.path == "/fall-sick":
            self.server.sick = True
        sick = self.path == "/health" and getattr(self.server, "sick", False)
        self.send_response(503 if sick else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer((arguments.host, arguments.port), Handler).serve_forever()
