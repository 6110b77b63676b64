"""The supervisor of the embedded farm: `python -m workers.embedded.supervisor --spec FILE`.

It starts Valkey, the endpoint and the workers, writes farm.json when all are ready, and restarts those that die.  It
stops everything in order on SIGTERM, on SIGINT, or when its owner's end of a pipe is closed, which the kernel does when
the owner is killed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import logging
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tasks.common import logs
from tasks.common.files import keep_private, unix_url, write_atomic
from tasks.openai.endpoint import EMBEDDED, NAME_VARIABLE
from tasks.queues import QueueName
from tasks.store.address import ENVIRONMENT_VARIABLE, PASSWORD_VARIABLE
from workers.embedded import valkey
from workers.embedded.endpoint import ENDPOINT_KEY_VARIABLE, ENDPOINT_SOCKET
from workers.embedded.farm import FARM_VARIABLE, Addresses, FarmFiles, FarmSpec
from workers.embedded.sockets import farm_socket, listen_privately, remove_farm_socket
from workers.health import worker_answers
from workers.processes import ChildProcess, Command, LogRotation, PidRecords, ProcessFailed, RestartPolicy, is_healthy
from workers.queues import worker_command

logger = logging.getLogger("whetstone.farm")

CHECK_PERIOD_S = 0.1
WORKERS_GRACE_S, ENDPOINT_GRACE_S, VALKEY_GRACE_S = 6.0, 1.0, 3.0


class Supervisor:
    """The farm's processes, from the first start to the last stop."""

    def __init__(self, spec: FarmSpec, stopping: threading.Event) -> None:
        self.spec = spec
        self.files = FarmFiles(Path(spec.folder))
        self.stopping = stopping
        self.records = PidRecords(self.files.pids)
        self.valkey: ChildProcess | None = None
        self.endpoint: ChildProcess | None = None
        self.listener: socket.socket | None = None  # the endpoint's
        self.workers: list[ChildProcess] = []
        # The endpoint's key is a new one for each start, in no file; a test that sends requests itself gives its own.
        self.environment = {ENDPOINT_KEY_VARIABLE: secrets.token_hex(32), **os.environ}
        self.rotation = LogRotation(self.logs)

    def logs(self) -> list[Path]:
        """The logs of the farm's processes; the gpu worker rotates those of its target server."""
        children = [child.command.log for child in self.children()]
        return [self.files.logs / "supervisor.log", *children]

    def run(self) -> None:
        """Run until `stopping` is set."""
        self.rotation.start()
        try:
            addresses = self.start()
            self.write_state(addresses)
            policies = [RestartPolicy(child) for child in self.children()]
            while not self.stopping.wait(CHECK_PERIOD_S):
                for policy in policies:
                    policy.check(time.monotonic())
        finally:
            self.take_down()
            self.rotation.stop()

    def children(self) -> list[ChildProcess]:
        return [child for child in (self.valkey, self.endpoint, *self.workers) if child is not None]

    def start(self) -> Addresses:
        """Start everything and wait until all of it is ready."""
        limit = self.spec.ready_timeout_s
        path = valkey.socket_path(self.files.folder)
        self.valkey = valkey.valkey_process(self.files.folder, path, self.records)
        self.valkey.start()
        self.valkey.wait_ready(lambda: valkey.is_answering(path), limit, self.stopping)
        addresses = Addresses(valkey.redis_url(path), None)
        if self.spec.embedded_endpoint:
            # Kept while the farm is up: what connects while the endpoint starts again is answered then.
            self.listener = listen_privately(rules := farm_socket(ENDPOINT_SOCKET, self.files.folder))
            addresses = dataclasses.replace(addresses, endpoint_url=unix_url(rules))
            command = endpoint_command(self.spec, self.listener.fileno(), self.environment)
            self.endpoint = ChildProcess(command, self.records)
            self.endpoint.start()
        for command in worker_commands(self.spec, addresses, self.environment):
            worker = ChildProcess(command, self.records)
            self.workers.append(worker)
            worker.start()
        if self.endpoint is not None and addresses.endpoint_url is not None:
            self.endpoint.wait_ready(partial(is_healthy, addresses.endpoint_url), limit, self.stopping)
        for worker in self.workers:
            worker.wait_ready(partial(worker_answers, addresses.redis_url, worker.command.name), limit, self.stopping)
        return addresses

    def write_state(self, addresses: Addresses) -> None:
        """Write farm.json: all is ready."""
        state = {"supervisor": os.getpid(), "started": datetime.now(UTC).isoformat(timespec="seconds")}
        write_atomic(self.files.state, json.dumps({**state, **dataclasses.asdict(addresses)}, indent=1))
        logger.info("the farm is up: %s", ", ".join(child.command.name for child in self.children()))

    def take_down(self) -> None:
        """Stop workers first, while the broker can still receive their unfinished tasks; Valkey last."""
        self.files.state.unlink(missing_ok=True)
        for worker in self.workers:
            worker.ask_to_stop()
        deadline = time.monotonic() + WORKERS_GRACE_S
        for worker in self.workers:
            worker.wait_end(deadline - time.monotonic())
            worker.stop(0)
        PidRecords(self.files.target_pids).clear(grace_s=ENDPOINT_GRACE_S)
        if self.endpoint is not None:
            self.endpoint.stop(ENDPOINT_GRACE_S)
        if self.listener is not None:
            self.listener.close()
            remove_farm_socket(ENDPOINT_SOCKET, self.files.folder)
        if self.valkey is not None:
            self.valkey.stop(VALKEY_GRACE_S)
            valkey.remove_socket(self.files.folder)
        self.files.pids.unlink(missing_ok=True)
        logger.info("the farm is down")


def endpoint_command(spec: FarmSpec, listener: int, environment: Mapping[str, str]) -> Command:
    """The embedded OpenAI-compatible endpoint; `listener` is the descriptor of its listening socket."""
    files = FarmFiles(Path(spec.folder))
    argv = (sys.executable, "-m", "workers.embedded.endpoint", "--fd", str(listener))
    return Command("endpoint", argv, files.logs / "endpoint.log", environment, signal.SIGKILL, (listener,))


def worker_commands(spec: FarmSpec, addresses: Addresses, environment: Mapping[str, str]) -> list[Command]:
    """The Celery workers: one on gpu, `openai_workers` on openai, one on cpu with a pool of `cpu_workers`."""
    several = spec.openai_workers > 1
    openai_names = [f"openai{number}" if several else "openai" for number in range(1, spec.openai_workers + 1)]
    workers: list[tuple[QueueName, str, int]] = [
        ("gpu", "gpu", spec.gpu_slots),
        *(("openai", name, spec.openai_threads) for name in openai_names),
        ("cpu", "cpu", spec.cpu_workers),
    ]
    return [
        Command(
            name,
            tuple(worker_command(queue, name, concurrency, spec.log_level)),
            FarmFiles(Path(spec.folder)).logs / f"{name}.log",
            _worker_environment(spec, addresses, environment, queue),
            signal.SIGKILL,  # the broker of a killed supervisor dies too, so a worker could not return its tasks
        )
        for queue, name, concurrency in workers
    ]


def _worker_environment(
    spec: FarmSpec, addresses: Addresses, environment: Mapping[str, str], queue: QueueName
) -> dict[str, str]:
    # Only the gpu worker computes on all cores; more threads in the others would slow it down.
    threads = str(os.cpu_count() or 1) if queue == "gpu" else "1"
    own = {
        ENVIRONMENT_VARIABLE: addresses.redis_url,
        PASSWORD_VARIABLE: "",  # another farm's password may be set; this farm's private socket needs none
        f"{PASSWORD_VARIABLE}_FILE": "",
        FARM_VARIABLE: spec.folder,
        "WHETSTONE_VISIBILITY_TIMEOUT": str(spec.visibility_timeout),
        "OMP_NUM_THREADS": environment.get("OMP_NUM_THREADS", threads),
        "TOKENIZERS_PARALLELISM": "false",
    }
    if spec.offline:
        own["HF_HUB_OFFLINE"] = "1"
    if addresses.endpoint_url:
        key = environment[ENDPOINT_KEY_VARIABLE]
        own |= {"OPENAI_BASE_URL": addresses.endpoint_url, "OPENAI_API_KEY": key, NAME_VARIABLE: EMBEDDED}
    return {**environment, **own}


def stop_when_closed(descriptor: int, stopping: threading.Event) -> None:
    """Set `stopping` when no process holds the writing end of the pipe any more."""

    def wait_for_end() -> None:
        while os.read(descriptor, 1):
            pass
        stopping.set()

    threading.Thread(target=wait_for_end, name="owner", daemon=True).start()


def main() -> None:
    keep_private()
    parser = argparse.ArgumentParser(prog="python -m workers.embedded.supervisor")
    parser.add_argument("--spec", type=Path, required=True, help="a FarmSpec as JSON")
    parser.add_argument("--owner-pipe", type=int, help="a descriptor; the farm stops when its other end is closed")
    arguments = parser.parse_args()
    logs.set_up([logging.StreamHandler()], logging.INFO)
    spec = FarmSpec.from_json(arguments.spec.read_text())
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stopping.set())
    if arguments.owner_pipe is not None:
        stop_when_closed(arguments.owner_pipe, stopping)
    try:
        Supervisor(spec, stopping).run()
    except (ProcessFailed, OSError) as error:
        if stopping.is_set():
            return
        logger.error("%s", error)
        with contextlib.suppress(OSError):  # its disk is full; then the log's last lines say why, as far as they go
            write_atomic(FarmFiles(Path(spec.folder)).error, str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
