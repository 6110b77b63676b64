"""A gpu worker takes as many messages as fill its server."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler

from farm_bench import Bench, until
from http_thread import http_server

from workers.health import worker_answers

META = {"finish_reason": {"type": "length"}, "prompt_tokens": 1, "completion_tokens": 1, "cached_tokens": 0}
REPLY = json.dumps({"text": "x", "output_ids": [5], "meta_info": META}).encode()


def test_the_next_message_is_taken_when_the_last_request_was_sent(bench: Bench) -> None:
    # Given a server that answers when it is let, and a worker with many slots and at most four requests in flight
    seen, let_answer = list[str](), threading.Semaphore(0)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            seen.append(self.path)
            let_answer.acquire()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(REPLY)

    bench.start_worker("gpu", 16)
    with http_server(Handler) as url:
        # When two tasks with three requests each have come, then two of the six wait for their turn
        results = [bench.app.send_task("gpu.ask", (url, 3, 4))]
        until(lambda: len(seen) == 3)
        results.append(bench.app.send_task("gpu.ask", (url, 3, 4)))
        until(lambda: len(seen) == 4)
        # And of four further messages at most one is taken, for which the worker had asked before
        results += [bench.app.send_task("gpu.ask", (url, 3, 4)) for _ in range(4)]
        until(lambda: worker_answers(bench.url, "gpu"))
        assert bench.broker.llen("gpu") >= 3
        # When five answers have arrived, then requests of a third task are in flight beside the last of the first two
        let_answer.release(5)
        until(lambda: len(seen) == 9)
        # And all tasks end with all their answers
        let_answer.release(1000)
        assert [result.get(timeout=20) for result in results] == [3] * 6
        assert len(seen) == 18
