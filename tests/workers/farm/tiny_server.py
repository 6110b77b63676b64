"""A server that has health, says what it was started with, and can fall sick: a target server's shape without its work.

`tiny_server.py [--fail REASON] --model-path M --host H --port P ...`
"""

import argparse
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

parser = argparse.ArgumentParser()
parser.add_argument("--fail")
parser.add_argument("--model-path", required=True)
parser.add_argument("--host", required=True)
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--size", type=int)
arguments = parser.parse_args()
if arguments.fail:
    raise SystemExit(arguments.fail)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        from whetstone_steering import parameters  # as the real server must be able to

        known = {**vars(arguments), "pid": os.getpid(), "labels": os.environ["WHETSTONE_LABELS"]}
        body = json.dumps({**known, "steering": parameters.__name__}).encode()
        if self.path == "/fall-sick":
            self.server.sick = True
        sick = self.path == "/health" and getattr(self.server, "sick", False)
        self.send_response(503 if sick else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer((arguments.host, arguments.port), Handler).serve_forever()
