"""The plan of faults, a function of the seed; and how each kind is caused."""

from __future__ import annotations

import random
import resource
import signal
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import psutil
import redis
from chaos_network import silenced, unreachable
from chaos_subject import Subject
from run_folder import until

MOST_CALLS_BETWEEN = 5
SHORTEST_S, LONGEST_S = 1.0, 12.0  # of the faults that last; after 10 s without its lease a task is delivered again
HUNG_S = 120.0  # in which the farm must restart it
FULL_S = 30.0  # in which the run must have failed to write
SETTLE_S = 2.0  # in which the clients of the store connect again


@dataclass(frozen=True)
class Fault:
    """One fault: `after` so many answered calls since the previous one, for `seconds` where its kind lasts."""

    kind: str
    victim: str
    after: int
    seconds: float

    @property
    def name(self) -> str:
        return f"{self.kind} ({self.victim})"

    def cause(self, subject: Subject, place: Path) -> bool:
        """Cause the fault and, if it lasts, end it.  `place` is a free path, short enough for a socket.

        Returns False when it did not happen: the process was not running, or the run ended first.
        """
        try:
            return KINDS[self.kind].cause(subject, self, place)
        except (psutil.NoSuchProcess, redis.RedisError, OSError):
            return False


def faults(seed: int, count: int, only: Collection[str] = ()) -> list[Fault]:
    """`count` faults of all kinds, or `only` of some, in an order and at moments that the seed alone decides."""
    rng = random.Random(f"chaos {seed}")
    turns: dict[str, Iterator[str]] = {
        name: cycle(rng.sample(kind.victims, len(kind.victims))) for name, kind in KINDS.items()
    }
    drawn: list[Fault] = []
    while len(drawn) < count:
        kinds = [name for name, kind in KINDS.items() for _ in range(kind.share) if name in (only or KINDS)]
        rng.shuffle(kinds)
        for name in kinds:
            after, seconds = rng.randint(1, MOST_CALLS_BETWEEN), round(rng.uniform(SHORTEST_S, LONGEST_S), 1)
            drawn.append(Fault(name, next(turns[name]), after, seconds))
    return drawn[:count]


def wait(subject: Subject, seconds: float) -> None:
    until(lambda: subject.ended, seconds)


def kill(subject: Subject, fault: Fault, place: Path) -> bool:
    return subject.send(fault.victim, signal.SIGKILL) is not None


def restart(subject: Subject, fault: Fault, place: Path) -> bool:
    return subject.send(fault.victim, signal.SIGTERM) is not None


def stop_and_continue(subject: Subject, fault: Fault, place: Path) -> bool:
    if victim := subject.send(fault.victim, signal.SIGSTOP):
        wait(subject, fault.seconds)
        if victim.is_running():
            victim.send_signal(signal.SIGCONT)
    return victim is not None


def hang(subject: Subject, fault: Fault, place: Path) -> bool:
    """Stopped and never continued: the farm must start another target."""
    if victim := subject.send(fault.victim, signal.SIGSTOP):
        until(lambda: not victim.is_running() or subject.ended, HUNG_S)
    return victim is not None


def cut(subject: Subject, fault: Fault, place: Path) -> bool:
    if fault.victim == "valkey":
        with unreachable(subject.socket(), place):
            wait(subject, fault.seconds)
    elif subject.proxy is not None:
        subject.proxy.cut()
        wait(subject, fault.seconds)
        subject.proxy.is_cut = False
    return fault.victim == "valkey" or subject.proxy is not None


def fall_silent(subject: Subject, fault: Fault, place: Path) -> bool:
    """The connections that are open stay open until the run ends, and nothing comes through them."""
    if fault.victim == "valkey":
        subject.silent.append(silenced(subject.socket(), place, lambda: wait(subject, SETTLE_S)))
    elif subject.proxy is not None:
        subject.proxy.silence()
    return fault.victim == "valkey" or subject.proxy is not None


def fill_disk(subject: Subject, fault: Fault, place: Path) -> bool:
    """The files of a process cannot grow: those of the run until it has ended, those of the store for a while."""
    victim = subject.process_of(fault.victim)
    if victim is None:
        return False
    try:
        before = victim.rlimit(psutil.RLIMIT_FSIZE)
        victim.rlimit(psutil.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        wait(subject, FULL_S if fault.victim == "orchestrator" else fault.seconds)
        if victim.is_running():
            victim.rlimit(psutil.RLIMIT_FSIZE, before)
    except psutil.Error:
        return subject.ended
    return True


def refuse(subject: Subject, fault: Fault, place: Path) -> bool:
    """Valkey refuses writes for want of memory."""
    with redis.Redis(unix_socket_path=str(subject.socket()), socket_timeout=5) as client:
        before = str(client.config_get("maxmemory")["maxmemory"])
        client.config_set("maxmemory", "1")
        wait(subject, fault.seconds)
        client.config_set("maxmemory", before)
    return True


def faulty_replies(subject: Subject, fault: Fault, place: Path) -> bool:
    """Faulty replies of the endpoint, until one was sent."""
    if subject.rules is None:
        return False

    def sent() -> int:
        return sum(bool(call.get("fault")) for call in subject.rules.calls())

    before = sent()
    subject.rules.fail(fault.victim)
    until(lambda: sent() > before or subject.ended, 60)
    return sent() > before


@dataclass(frozen=True)
class Kind:
    """How often it comes in comparison with the others, what it happens to, in turn, and how it is caused."""

    share: int
    victims: tuple[str, ...]
    cause: Callable[[Subject, Fault, Path], bool]


KINDS: Mapping[str, Kind] = {
    "kill -9": Kind(
        9,
        ("gpu", "target", "openai", "orchestrator", "cpu", "valkey", "pool child", "endpoint", "supervisor"),
        kill,
    ),
    "stop and continue": Kind(
        4,
        ("gpu", "valkey", "openai", "target", "cpu", "endpoint", "orchestrator", "supervisor"),
        stop_and_continue,
    ),
    "broker restart": Kind(2, ("valkey",), restart),
    "connection cut": Kind(3, ("valkey", "endpoint"), cut),
    "silent connection": Kind(2, ("valkey", "endpoint"), fall_silent),
    "disk full": Kind(4, ("orchestrator", "valkey"), fill_disk),
    "refusing store": Kind(2, ("valkey",), refuse),
    "hung target": Kind(1, ("target",), hang),
    "faulty replies": Kind(6, ("*:rate_limit:0.3:10", "*:500:5", "*:invalid_json:1"), faulty_replies),
}
