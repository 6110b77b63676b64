"""`make chaos SEED=7 FAULTS=200`: small runs of the real thing under faults of nine kinds, one after another.

Each run must end in the state of a run without faults, or park with a reason and end there after `orchestrator retry`;
no answered call may be repeated more often than the faults explain, and no process may remain.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import psutil
import redis
from figures import table, write
from rules_server import RulesServer, rules_server
from run_folder import LOGS, ROOT, RunFolder, environment, process_of, until
from valkey_network import moved_socket, silent_connections

from workers.embedded.valkey import socket_path

# Room for ten faults: small, but not so small that a run has ended after four.
OPTIONS = {"POPULATION_SIZE": "4", "NGEN": "3"}
TIMEOUTS = {f"WHETSTONE_{name}_TIMEOUT_S": s for name, s in (("TARGET", "30"), ("OPENAI", "20"), ("STAGE", "300"))}
LANES = 3  # runs at the same time: a run waits most of its time
LONGEST_CHAOS_S = 5400.0  # no further run is started after it
FAULTS_OF_A_RUN, MOST_CALLS_BETWEEN, MOST_SESSIONS = 10, 5, 25
SHORTEST_S, LONGEST_S = 1.0, 12.0  # of the faults that last; after 10 s without its lease a task is delivered again
HUNG_S = 120.0  # in which the farm must restart it
FULL_S = 30.0  # in which the run must have failed to write
SETTLE_S = 2.0  # in which the clients of the store connect again
CALL_S = 360.0  # for the next answered call: longer than the timeouts of a run
END_S, GONE_S = 600.0, 30.0
PARKED, STATUSES = 3, (0, 1, 2, 3, -9)
# How many calls in flight a fault can lose: a training set at the target, one call of each thread at the endpoint.
IN_FLIGHT = dict(zip(LOGS, (3, 12), strict=True))
READERS = ThreadPoolExecutor(32)  # of what sessions print


class Fault(NamedTuple):
    """`after` so many answered calls since the previous one, for `seconds` where its kind lasts."""

    kind: str
    victim: str
    after: int
    seconds: float

    @property
    def name(self) -> str:
        return f"{self.kind} ({self.victim})"


@dataclass
class Subject(RunFolder):
    """A run that faults happen to; every other one has an endpoint of its own, which are its `rules`."""

    held: ExitStack = field(default_factory=ExitStack)
    rules: RulesServer | None = None
    faults: list[Fault] = field(default_factory=list)
    sessions: int = 0
    calls: int = 0
    repeats: int = 0
    problem: str = ""

    def add_endpoint(self) -> None:
        self.rules = self.held.enter_context(rules_server(self.folder / LOGS[1]))
        self.ask(self.rules)

    def begin_session(self, *, retry: bool = False) -> None:
        """The command, as a user would start it again, or `retry`."""
        self.sessions += 1
        again = [sys.executable, "-m", "orchestrator", "retry", str(self.output), "--plain"]
        self.process = subprocess.Popen(
            again if retry else self.command("--plain"), cwd=ROOT, env={**environment(), **TIMEOUTS},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.printed: Future[str] = READERS.submit(self.process.stdout.read)

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def socket(self) -> Path:
        return socket_path(self.farm)

    @property
    def hidden(self) -> Path:
        """Where the socket is out of reach: a short path."""
        return self.folder.parent / f"{self.folder.name}.sock"

    def wait(self, seconds: float) -> None:
        until(lambda: self.ended, seconds)

    def victim(self, kind: str) -> psutil.Process:
        """Raises: LookupError."""
        found = psutil.Process(self.process.pid) if kind == "orchestrator" else process_of(self, kind)
        if found is None or self.ended:
            raise LookupError(kind)
        return found

    def close(self) -> None:
        self.clear()
        self.process.wait(30)
        until(lambda: not self.processes(), 20)
        self.held.close()
        self.socket.unlink(missing_ok=True)


def kill(run: Subject, fault: Fault) -> None:
    run.victim(fault.victim).send_signal(signal.SIGTERM if fault.kind == "broker restart" else signal.SIGKILL)


def stop(run: Subject, fault: Fault) -> None:
    """A target that hangs is never continued: the farm must start another."""
    victim = run.victim(fault.victim)
    victim.suspend()
    if fault.kind == "hung target":
        until(lambda: not victim.is_running() or run.ended, HUNG_S)
    else:
        run.wait(fault.seconds)
        if victim.is_running():
            victim.resume()


def cut(run: Subject, fault: Fault) -> None:
    with moved_socket(run.socket, run.hidden):
        run.wait(fault.seconds)


def fall_silent(run: Subject, fault: Fault) -> None:
    """The connections that are open stay so until the run ends."""
    run.held.enter_context(silent_connections(run.socket, run.hidden, lambda: run.wait(SETTLE_S)))


def fill_disk(run: Subject, fault: Fault) -> None:
    """The files of a process cannot grow: those of the run until it has ended, those of the store for a while."""
    victim = run.victim(fault.victim)
    before = victim.rlimit(psutil.RLIMIT_FSIZE)
    victim.rlimit(psutil.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    run.wait(FULL_S if fault.victim == "orchestrator" else fault.seconds)
    with suppress(psutil.Error):
        victim.rlimit(psutil.RLIMIT_FSIZE, before)


def refuse(run: Subject, fault: Fault) -> None:
    """Valkey refuses writes for want of memory."""
    with redis.Redis(unix_socket_path=str(run.socket), socket_timeout=5) as client:
        client.config_set("maxmemory", "1")
        run.wait(fault.seconds)
        client.config_set("maxmemory", "0")


def reply_wrongly(run: Subject, fault: Fault) -> None:
    """Faulty replies of the endpoint, until one was sent."""
    if (rules := run.rules) is None:
        raise LookupError(fault.victim)
    before = len(rules.calls())

    def is_sent() -> bool:
        return any(call["fault"] for call in rules.calls()[before:])

    rules.fail(fault.victim)
    until(lambda: is_sent() or run.ended, 60)
    if not is_sent():
        raise LookupError(fault.victim)


PROCESSES = ("gpu", "target", "openai", "endpoint", "supervisor")
KINDS: Mapping[str, tuple[tuple[str, ...], Callable[[Subject, Fault], None]]] = {
    "kill -9": (("orchestrator", "valkey", *PROCESSES, "cpu", "pool child"), kill),
    "stop and continue": (("orchestrator", "valkey", *PROCESSES, "cpu"), stop),
    "broker restart": (("valkey",), kill),
    "connection cut": (("valkey",), cut),
    "silent connection": (("valkey",), fall_silent),
    "disk full": (("orchestrator", "valkey"), fill_disk),
    "refusing store": (("valkey",), refuse),
    "hung target": (("target",), stop),
    "faulty replies": (("*:rate_limit:0.3:10", "*:500:5", "*:invalid_json:1", "*:hang:30:1"), reply_wrongly),
}
"""What each kind of fault happens to, and what causes and ends it; that raises LookupError when it cannot happen."""


def drawn_faults(seed: int, wanted: int) -> list[Fault]:
    """Each fault as often as the others, in an order and at moments that the seed alone decides."""
    every = [(kind, victim) for kind, (victims, _) in KINDS.items() for victim in victims]
    rng, drawn = random.Random(f"chaos {seed}"), list[Fault]()
    while len(drawn) < wanted:
        for kind, victim in rng.sample(every, len(every)):
            after, seconds = rng.randint(1, MOST_CALLS_BETWEEN), round(rng.uniform(SHORTEST_S, LONGEST_S), 1)
            drawn.append(Fault(kind, victim, after, seconds))
    return drawn[:wanted]


def is_caused(run: Subject, fault: Fault) -> bool:
    """Whether it happened: the run may have ended first, or have no such process or no endpoint of its own."""
    try:
        _, cause = KINDS[fault.kind]
        cause(run, fault)
    except (LookupError, psutil.Error, redis.RedisError, OSError):
        return False
    return True


def disturb(run: Subject, queue: deque[Fault]) -> None:
    """Fault after fault, until the run has ended.  A fault that does not happen becomes the last."""
    run.begin_session()
    seen = 0
    while True:
        if run.ended:
            if not goes_on(run):
                return
            seen = run.answers()
        elif len(run.faults) == FAULTS_OF_A_RUN or not queue:
            if not until(lambda: run.ended, END_S):
                raise AssertionError(f"the run did not end within {END_S:.0f} s after its last fault")
        else:
            fault = queue.popleft()
            wanted = seen + fault.after
            if not until(lambda: run.answers() >= wanted or run.ended, CALL_S):  # noqa: B023
                raise AssertionError(f"nothing was answered for {CALL_S:.0f} s before {fault.name}")
            (run.faults if is_caused(run, fault) else queue).append(fault)
            seen = run.answers()


def goes_on(run: Subject) -> bool:
    """Start the next session if the run has not ended."""
    status, printed = run.process.returncode, run.printed.result(30)
    is_explained = status <= 0 or "\norchestrator: " in f"\n{printed}"
    if "Traceback" in printed or status not in STATUSES or not is_explained or run.sessions == MOST_SESSIONS:
        raise AssertionError(f"session {run.sessions} ended with {status}:\n{printed}")
    if not until(lambda: not run.processes(), GONE_S):
        raise AssertionError(f"processes remain: {run.processes()}")
    if status:
        run.begin_session(retry=status == PARKED)
    return status != 0


def check(run: Subject, reference: RunFolder) -> None:
    if run.state() != reference.state():
        raise AssertionError("it ended in another state than the run without faults")
    faults = len(run.faults)
    for log in LOGS:
        times = Counter(run.answered(log))
        again = times - (Counter(times.keys()) | Counter(reference.answered(log)))
        run.calls += times.total()
        run.repeats += again.total()
        if max(again.values(), default=0) > faults or again.total() > faults * IN_FLIGHT[log]:
            raise AssertionError(f"{log}: more repeated calls than {faults} faults explain: {again}")


def go(run: Subject, queue: deque[Fault], reference: RunFolder) -> Subject:
    """A whole run; its folder stays when it was not as it must be."""
    try:
        disturb(run, queue)
        check(run, reference)
    except AssertionError as wrong:
        run.problem = str(wrong)
    finally:
        run.close()
    faults = [fault.name for fault in run.faults]
    print(f"{run.folder.name}: {run.sessions} sessions, {run.problem or 'as it must be'}; faults: {faults}", flush=True)
    if not run.problem:
        shutil.rmtree(run.folder, ignore_errors=True)
    return run


def main() -> None:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=7, help="decides which faults happen, to which process and when")
    parser.add_argument("--faults", type=int, default=200)
    options = parser.parse_args()
    drawn = drawn_faults(options.seed, options.faults)
    folder, started = Path(tempfile.mkdtemp(prefix="chaos-")), time.monotonic()

    def stop_now(number: int, _: object) -> None:
        RunFolder(folder).clear()
        os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop_now)
    reference = RunFolder(folder / "reference", dict(OPTIONS))
    reference.folder.mkdir()
    done = reference.run()
    if done.returncode:
        sys.exit(f"the reference run failed:\n{done.stdout}")
    print(f"the reference run took {time.monotonic() - started:.0f} s", flush=True)

    def lane(which: int) -> list[Subject]:
        queue, runs = deque(drawn[which::LANES]), list[Subject]()
        while queue and time.monotonic() - started < LONGEST_CHAOS_S:
            run = Subject(folder / f"run{which}-{len(runs)}", dict(OPTIONS))
            run.folder.mkdir()
            if len(runs) % 2 == which % 2:
                run.add_endpoint()
            runs.append(go(run, queue, reference))
        return runs

    with ThreadPoolExecutor(LANES) as pool:
        runs = [run for done in pool.map(lane, range(LANES)) for run in done]
    happened = Counter(fault.name for run in runs for fault in run.faults)
    problems = [run.problem for run in runs if run.problem]
    figures = {
        "seed": options.seed, "wanted": options.faults, "faults": happened.total(), "runs": len(runs),
        "sessions": sum(run.sessions for run in runs), "calls": sum(run.calls for run in runs),
        "repeated": sum(run.repeats for run in runs), "seconds": round(time.monotonic() - started),
    }  # fmt: skip
    print(table([*figures], [[*map(str, figures.values())]]))
    write("chaos", {**figures, "faults_by_name": dict(happened), "problems": problems})
    if problems or happened.total() < options.faults:
        sys.exit(f"the folders of the failed runs are in {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
