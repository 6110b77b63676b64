"""A farm whose tasks do nothing, or only wait: a real Valkey and real workers, for as long as a `with` block."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from celery import Celery, chain, chord

from orchestrator.farm.work import new_id
from tasks.plan import Candidate, Merge, Plan, stage_refs
from tasks.queues import STAGE_TASKS, QueueName, queue_of
from tasks.records import Clusters, Endpoint, Fitness, Judge, Reflector, Run, Sampling, Target
from tasks.store.address import ENVIRONMENT_VARIABLE
from workers.embedded import valkey
from workers.health import worker_answers
from workers.processes import ChildProcess, Command
from workers.queues import MODULES_VARIABLE, worker_command, worker_environment

BARE = "bare"  # in the ids of chords of Celery alone, so that their counters can be told from the farm's
RUN = Run(
    "bench", 1,
    Target(
        model="m", engine="embedded", device="cpu", ready_timeout_s=1, request_timeout_s=1, prompt_template="",
        sampling=Sampling(1, 0, 1, 1),
    ),
    Judge("m", 0.01, True, 0, 1, 1, 1, 1), Reflector("m", 0, 1, 1, 1), Endpoint("", "K", 1, 1, 1, 1, 0, 0, 0, 0),
    Fitness(0.4, 0.6, 50), Clusters("", "m", 1, 1, 1, 1, "cpu"), True,
)  # fmt: skip


@dataclass(frozen=True)
class Crew:
    """One worker process: its queue, and how many tasks it runs at once."""

    queue: QueueName
    concurrency: int = 1


@dataclass(frozen=True)
class IdleFarm:
    """A farm that is up: its address, the environment that names it, and its processes."""

    url: str
    environment: Mapping[str, str]
    valkey: ChildProcess
    workers: Mapping[str, ChildProcess]

    def resident_mb(self) -> dict[str, float]:
        """Resident memory of Valkey and of each worker with its pool."""
        return {name: _resident_mb(process) for name, process in {"valkey": self.valkey, **self.workers}.items()}


def candidates(children: int) -> tuple[Candidate, ...]:
    """Half of the children merged, half of them mutated: four to eight stages each."""
    merge = Merge("a", 0.5, "b", 0.5)
    return tuple(
        Candidate(i, (0.0,) * 12, merge=merge if i % 2 else None, target=3 if i % 4 < 2 else None)
        for i in range(children)
    )


@contextmanager
def idle_farm(crews: Mapping[str, Crew], modules: str) -> Iterator[IdleFarm]:
    """Workers by their names, which import `modules` of this folder in place of the project's tasks."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        socket = valkey.socket_path(folder)
        url = valkey.redis_url(socket)
        server = valkey.valkey_process(folder, socket, None)
        environment = {**os.environ, ENVIRONMENT_VARIABLE: url}
        own = {MODULES_VARIABLE: modules, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *_path()])}
        workers: dict[str, ChildProcess] = {}
        try:
            server.start()
            server.wait_ready(lambda: valkey.is_answering(socket), 30)
            for worker, crew in crews.items():
                argv = tuple(worker_command(crew.queue, worker, crew.concurrency, "WARNING"))
                every = {**environment, **own, **worker_environment(crew.queue)}
                workers[worker] = ChildProcess(Command(worker, argv, folder / f"{worker}.log", every))
                workers[worker].start()
            for worker in crews:
                workers[worker].wait_ready(lambda w=worker: worker_answers(url, w), 120)
            yield IdleFarm(url, environment, server, workers)
        finally:
            for process in workers.values():
                process.ask_to_stop()
            for process in workers.values():
                process.stop(5)
            server.stop(5)
            valkey.socket_path(folder).unlink(missing_ok=True)


def bare_chord(app: Celery, plan: Plan) -> None:
    """The same tasks on the same queues with the same arguments, on Celery alone: send them, and wait for their end."""
    chains = []
    for candidate in plan.candidates:
        arguments = [("bench", plan.name, candidate.index, step.phase, 1) for step in stage_refs(candidate)]
        names = [f"{queue_of(STAGE_TASKS[s.stage])}.bare_{s.stage}" for s in stage_refs(candidate)]
        chains.append(chain(*(app.signature(n, args=a, immutable=True) for n, a in zip(names, arguments, strict=True))))
    body = app.signature("cpu.bare_gather", args=("bench", plan.name, 1), immutable=True)
    result = chord(chains, body, app=app, task_id=new_id(BARE)).apply_async(task_id=new_id(BARE))
    result.get(timeout=120)
    result.forget()


def _path() -> list[str]:
    return [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]


def _resident_mb(process: ChildProcess) -> float:
    leader = psutil.Process(process.pid)
    return sum(p.memory_info().rss for p in [leader, *leader.children(recursive=True)]) / 2**20
