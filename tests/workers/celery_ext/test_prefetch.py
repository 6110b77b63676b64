"""A gpu worker takes as many messages as fill its server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from farm_bench import Bench, until
from http_thread import http_server

from workers.health import worker_answers

REPLY = (
    b'{"text": "x", "output_ids": [5], "meta_info": {"finish_reason": {"type": "length"},'
    b' "prompt_tokens": 1, "completion_tokens": 1, "cached_tokens": 0}}'
)


class Gate:
    """A target server that counts its requests and answers each one when the test lets it."""

    def __init__(self, url: str) -> None:
        self.url, self.seen = url, 0
        self.lock, self.let_answer = threading.Lock(), threading.Semaphore(0)


@contextmanager
def gate() -> Iterator[Gate]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            with served.lock:
                served.seen += 1
            served.let_answer.acquire()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(REPLY)

    with http_server(Handler) as url:
        served = Gate(url)
        try:
            yield served
        finally:
            served.let_answer.release(1000)


def test_the_next_message_is_taken_when_the_last_request_was_sent(bench: Bench) -> None:
    # Given a worker with many slots and at most four requests in flight
    bench.start_worker("gpu", 16)
    with gate() as server:
        # When two tasks with three requests each have come, then two of the six wait for their turn
        results = [bench.app.send_task("gpu.ask", (server.url, 3, 4))]
        until(lambda: server.seen == 3)
        results.append(bench.app.send_task("gpu.ask", (server.url, 3, 4)))
        until(lambda: server.seen == 4)
        # And of four further messages at most one is taken, for which the worker had asked before
        results += [bench.app.send_task("gpu.ask", (server.url, 3, 4)) for _ in range(4)]
        until(lambda: worker_answers(bench.url, "gpu"))
        assert bench.broker.llen("gpu") >= 3
        # When five answers have arrived, then requests of a third task are in flight beside the last of the first two
        server.let_answer.release(5)
        until(lambda: server.seen == 9)
        # And all tasks end with all their answers
        server.let_answer.release(100)
        assert [result.get(timeout=20) for result in results] == [3] * 6
        assert server.seen == 18
