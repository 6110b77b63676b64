"""A server that has health, says what it was started with, and can fall sick: a target server's shape without its work.

`tiny_server.py [--fail REASON] [--die-once FILE] --model-path M --host H --port P ...`

It answers every prompt with the prompt's own length.  With `--die-once` it dies when it has given three answers, if
FILE is not there, and leaves FILE behind.
"""

import argparse
import json
import os
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
parser.add_argument("--config", type=Path, required=True)
arguments = parser.parse_args()
# As SGLang has it: YAML of one entry, read as if it were an argument, and all of it in the log.
given = argparse.ArgumentParser()
given.add_argument("--api-key", required=True)
[entry] = yaml.safe_load(arguments.config.read_text()).items()
API_KEY = given.parse_args([f"--{entry[0]}", str(entry[1])]).api_key
print(f"{arguments.config.stat().st_mode & 0o777:o} api_key={API_KEY}", flush=True)
if arguments.fail:
    raise SystemExit(arguments.fail)


class Handler(BaseHTTPRequestHandler):
    answered = 0

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
        known = self.headers["Authorization"] == f"Bearer {API_KEY}"
        if not known:
            self.send_error(401)
        return not known

    def do_GET(self) -> None:
        if self.path != "/health" and self.refused():
            return
        from whetstone_steering import request  # as the real server must be able to

        known = {"pid": os.getpid(), "labels": os.environ["WHETSTONE_LABELS"], "steering": request.__name__}
        told = {**known, "model_path": arguments.model_path, "size": arguments.size, "version": "0.0.tiny"}
        if self.path == "/fall-sick":
            self.server.sick = True
        sick = self.path == "/health" and getattr(self.server, "sick", False)
        self.reply(503 if sick else 200, told)

    def reply(self, status: int, content: dict[str, object]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer((arguments.host, arguments.port), Handler).serve_forever()
