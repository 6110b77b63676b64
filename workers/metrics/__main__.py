"""`python -m workers.metrics [--host HOST] [--port PORT]`: the farm's numbers at http://HOST:PORT/metrics.

Like a worker it needs the address of the broker (WHETSTONE_REDIS_URL), and nothing else.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
from typing import Any

import redis
from celery import Celery
from kombu.exceptions import OperationalError
from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics, start_http_server

from tasks.common.files import keep_private
from tasks.common.logs import redacted
from tasks.store.address import queues_url, redis_url_of, store_url
from tasks.store.client import NO_WAITING, connect
from tasks.store.store import Store
from workers.metrics.collector import FarmCollector, TaskEvents

log = logging.getLogger(__name__)

PORT = 9100
TIMEOUT_S = 2.0  # of a server that does not answer: a scrape waits meanwhile
PAUSE_S = 1.0  # before listening again


def main() -> None:
    keep_private()
    options = _parse_arguments(sys.argv[1:])
    try:
        url = redis_url_of(os.environ)
        broker, store = (
            connect(address, NO_WAITING, timeout_s=TIMEOUT_S) for address in (queues_url(url), store_url(url))
        )
        # Importing it creates an application, which needs a valid address.
        from workers.app import create_app

        disable_created_metrics()  # type: ignore[no-untyped-call]  # when a series began: twice as many, unasked for
        registry = CollectorRegistry(auto_describe=False)
        registry.register(FarmCollector(broker, Store(store)))
        ProcessCollector(registry=registry)
        events = TaskEvents(registry)
        server, _ = start_http_server(options.port, options.host, registry)
    except (ValueError, OSError) as error:
        sys.exit(f"workers.metrics: {error}")
    print(f"metrics of {redacted(url)} at http://{options.host}:{server.server_port}/metrics", flush=True)
    try:
        listen(create_app(dict(os.environ)), events, threading.Event())
    except KeyboardInterrupt:
        sys.exit(130)


def listen(app: Celery[Any], events: TaskEvents, stop: threading.Event) -> None:
    """Give Celery's events to `events` until `stop` is set, over every restart of the broker."""
    while not stop.is_set():
        try:
            with app.connection() as connection:
                receiver = app.events.Receiver(connection, handlers={"*": events.handle})
                for _ in receiver.itercapture(limit=None, timeout=None, wakeup=False):
                    if stop.is_set():
                        return
        except (OperationalError, redis.RedisError, OSError):
            stop.wait(PAUSE_S)


def _parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m workers.metrics", description="The farm's numbers for Prometheus.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1; 0.0.0.0 in a container)")
    parser.add_argument("--port", type=int, default=PORT, help=f"port ({PORT}; 0 takes a free one)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
