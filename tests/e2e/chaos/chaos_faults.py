"""How each kind of fault is caused.  Each function returns whether the fault happened."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import redis
from chaos_network import silenced, unreachable
from chaos_plan import Fault, Kind
from chaos_subject import Subject, send, until

HUNG_S = 120.0  # in which the farm must restart it
FULL_S = 30.0  # in which the run must have failed to write
SETTLE_S = 2.0  # in which the clients of the store connect again


def cause(subject: Subject, fault: Fault, place: Path) -> bool:
    """Cause the fault and, if it lasts, end it.  `place` is a free path, short enough for a socket.

    Returns False when it did not happen: the process was not running, or the run ended first.
    """
    return CAUSES[fault.kind](subject, fault, place)


def kill(subject: Subject, fault: Fault, place: Path) -> bool:
    victim = subject.process_of(fault.victim)
    return victim is not None and send(victim, signal.SIGKILL)


def stop_and_continue(subject: Subject, fault: Fault, place: Path) -> bool:
    victim = subject.process_of(fault.victim)
    if victim is None or not send(victim, signal.SIGSTOP):
        return False
    _wait(subject, fault.seconds)
    send(victim, signal.SIGCONT)
    return True


def hang(subject: Subject, fault: Fault, place: Path) -> bool:
    """Stopped and never continued: the farm must start another target."""
    victim = subject.process_of("target")
    if victim is None or not send(victim, signal.SIGSTOP):
        return False
    until(lambda: not victim.is_running() or subject.ended, HUNG_S)
    return True


def restart_broker(subject: Subject, fault: Fault, place: Path) -> bool:
    victim = subject.process_of("valkey")
    return victim is not None and send(victim, signal.SIGTERM)


def cut(subject: Subject, fault: Fault, place: Path) -> bool:
    if fault.victim == "endpoint":
        if subject.proxy is None:
            return False
        subject.proxy.cut()
        _wait(subject, fault.seconds)
        subject.proxy.restore()
        return True
    try:
        with unreachable(subject.socket(), place):
            _wait(subject, fault.seconds)
    except OSError:
        return False
    return True


def fall_silent(subject: Subject, fault: Fault, place: Path) -> bool:
    """The connections that are open stay open until the run ends, and nothing comes through them."""
    if fault.victim == "endpoint":
        if subject.proxy is None:
            return False
        subject.proxy.silence()
        return True
    try:
        subject.silent.append(silenced(subject.socket(), place, lambda: _wait(subject, SETTLE_S)))
    except OSError:
        return False
    return True


def fill_disk(subject: Subject, fault: Fault, place: Path) -> bool:
    """The files of a process cannot grow: those of the run until it has ended, those of the store for a while."""
    victim = subject.process_of(fault.victim)
    if victim is None:
        return False
    try:
        before = victim.rlimit(psutil.RLIMIT_FSIZE)
        victim.rlimit(psutil.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        _wait(subject, FULL_S if fault.victim == "orchestrator" else fault.seconds)
        if victim.is_running():
            victim.rlimit(psutil.RLIMIT_FSIZE, before)
    except psutil.Error:
        return subject.ended
    return True


def refuse(subject: Subject, fault: Fault, place: Path) -> bool:
    """Valkey refuses writes for want of memory."""
    try:
        with redis.Redis(unix_socket_path=str(subject.socket()), socket_timeout=5) as client:
            before = str(client.config_get("maxmemory")["maxmemory"])
            client.config_set("maxmemory", "1")
            _wait(subject, fault.seconds)
            client.config_set("maxmemory", before)
    except redis.RedisError:
        return False
    return True


def faulty_replies(subject: Subject, fault: Fault, place: Path) -> bool:
    """Faulty replies of the endpoint, until one was sent."""
    if subject.rules is None:
        return False
    before = subject.faulty_reply_count()
    subject.rules.fail(fault.victim)
    until(lambda: subject.faulty_reply_count() > before or subject.ended, 60)
    return subject.faulty_reply_count() > before


def _wait(subject: Subject, seconds: float) -> None:
    """Wait `seconds`, or until the run has ended."""
    until(lambda: subject.ended, seconds)


CAUSES: Mapping[Kind, Callable[[Subject, Fault, Path], bool]] = {
    "kill -9": kill,
    "stop and continue": stop_and_continue,
    "broker restart": restart_broker,
    "connection cut": cut,
    "silent connection": fall_silent,
    "disk full": fill_disk,
    "refusing store": refuse,
    "hung target": hang,
    "faulty replies": faulty_replies,
}
