"""One worker process: `python -m workers QUEUE [--name NAME] [--concurrency N] [--gpu N] [--log-level LEVEL]`.

It is `celery worker` with the pool, the name and the environment of its queue.  It exits without waiting for threads,
whose tasks were returned to the queue or are over their time limit.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys

from tasks.common.files import keep_private, runtime_folder
from tasks.queues import QUEUES
from workers.health import free_name
from workers.queues import POOLS, worker_environment
from workers.sglang.gpus import GPU_VARIABLE


def main() -> None:
    keep_private()
    arguments = _parse_arguments(sys.argv[1:])
    # Celery reads some variables when it is imported, so its imports come after this line.
    os.environ.update(worker_environment(arguments.queue))
    if arguments.gpu is not None:
        os.environ[GPU_VARIABLE] = arguments.gpu
    try:
        from tasks.common import logs
        from workers.app import app

    except ValueError as error:  # a wrong address or secret
        sys.exit(f"workers: {error}")

    from workers.celery_ext.logs import format_worker_logs
    from workers.celery_ext.threads import limit_shutdown

    # Celery's pool makes a file here and unlinks it; a folder of its own would stay behind when this process is killed.
    multiprocessing.current_process()._config["tempdir"] = str(runtime_folder())  # type: ignore[attr-defined]
    # For lines that come before Celery sets up its logs, such as its warning about the superuser.
    logs.set_process_fields(worker=arguments.name)
    logs.set_up([logging.StreamHandler()], logging.INFO)
    logging.captureWarnings(True)
    format_worker_logs()
    limit_shutdown()
    options = [
        *("--queues", arguments.queue, "--hostname", f"{arguments.name}@%h"),
        *("--pool", "custom" if POOLS[arguments.queue] == "threads" else "prefork"),
        *("--concurrency", str(arguments.concurrency), "--loglevel", arguments.log_level.upper()),
        # Workers need no clocks or revocations of other workers, and are ready sooner without asking for them.
        *("--without-mingle", "--without-gossip"),
    ]
    status: int = app.start(["worker", *options]) or 0
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m workers",
        description="One worker process of a Whetstone farm, for the Redis or Valkey at WHETSTONE_REDIS_URL "
        "(docs/farm.md).  It runs until it is stopped; Ctrl+C or SIGTERM lets it finish or give back its tasks.",
    )
    parser.add_argument("queue", choices=list(QUEUES), help="the queue whose tasks it does")
    parser.add_argument(
        "--name",
        help="unique on its host among the workers of one broker (default: QUEUE, or QUEUE-PID where that is in use)",
    )
    parser.add_argument("--concurrency", type=int, default=1, help="tasks at once (default 1)")
    parser.add_argument(
        "--gpu",
        help=f"for a gpu worker: the number of its GPU, or shared (default: {GPU_VARIABLE}, or the first free one)",
    )
    parser.add_argument("--log-level", default="INFO", help="of its log on standard error (default INFO)")
    arguments = parser.parse_args(argv)
    arguments.name = arguments.name or free_name(arguments.queue, os.environ)
    return arguments


if __name__ == "__main__":
    main()
