"""One worker process: `python -m workers QUEUE [--name NAME] [--concurrency N] [--gpu N] [--log-level LEVEL]`.

It is `celery worker` with the pool, the names and the environment of its queue, and it ends when it is told to: Python
would still wait for threads whose tasks were given back, or are over their time limit.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys

from tasks.queues import QUEUES
from workers.health import free_name
from workers.queues import celery_arguments, worker_environment
from workers.sglang.gpus import GPU_VARIABLE


def main() -> None:
    arguments = parse(sys.argv[1:])
    # Celery reads some of this when it is imported, so the imports come after it.
    os.environ.update(worker_environment(arguments.queue))
    if arguments.gpu is not None:
        os.environ[GPU_VARIABLE] = arguments.gpu
    try:
        from tasks import logs
        from workers.app import app

        options = ["--quiet"] if logs.are_json() else []  # the banner is no JSON
    except ValueError as error:  # of an address, a secret or a format that is of no use
        sys.exit(f"workers: {error}")

    from workers.celery_ext.logs import connect

    # Until Celery has logs of its own: it warns of the superuser, for one.
    logs.always(worker=arguments.name)
    logs.set_up([logging.StreamHandler()], logging.INFO)
    logging.captureWarnings(True)
    connect()
    arguments_of_celery = celery_arguments(arguments.queue, arguments.name, arguments.concurrency, arguments.log_level)
    status: int = app.start([*options, *arguments_of_celery]) or 0
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m workers", description="One worker process of a Whetstone farm.")
    parser.add_argument("queue", choices=list(QUEUES))
    parser.add_argument(
        "--name",
        help="unique on its host among the workers of one broker (default: QUEUE, or QUEUE-PID where that is taken)",
    )
    parser.add_argument("--concurrency", type=int, default=1, help="tasks at once (default 1)")
    parser.add_argument(
        "--gpu",
        help=f"of a gpu worker: the number of its GPU, or shared (default: {GPU_VARIABLE}, or the first free one)",
    )
    parser.add_argument("--log-level", default="INFO")
    arguments = parser.parse_args(argv)
    arguments.name = arguments.name or free_name(arguments.queue, os.environ)
    return arguments


if __name__ == "__main__":
    main()
