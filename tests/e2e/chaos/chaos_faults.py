"""How each kind of fault is caused.  Each function returns whether the fault happened."""

from __future__ import annotations

import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import redis
from chaos_failover import NoFailover, failed_over
from chaos_network import silenced, slowed, unreachable
from chaos_plan import LONGEST_S, Fault, Kind
from chaos_subject import DISK_KB, FARM_DISK_KB, Subject, send, until

SLOW_S = 0.1  # each piece in each direction
STORMS: Mapping[Kind, str] = {
    "429 storm": "*:rate_limit:0.3:10",
    "500s": "*:500:5",
    "invalid JSON": "*:invalid_json:1",
}
HUNG_S = 120.0  # in which the farm must restart it
FULL_S = 30.0  # in which the run must have failed to write
LONGEST_STEP_S = 60.0
BALLAST = ".ballast"
SETTLE_S = 2.0  # in which the clients of the store connect again
REFUSED = (1, 2, 3, 4)


class Unexpected(Exception):
    """What was to be refused was not."""


def cause(subject: Subject, fault: Fault, place: Path) -> bool:
    """Cause the fault and, if it lasts, end it.  `place` is a free path, short enough for a socket.

    Returns False when it did not happen: the process was not running, or the run ended first.
    """
    return CAUSES[fault.kind](subject, fault, place)


def kill(subject: Subject, fault: Fault, place: Path) -> bool:
    victim = subject.process_of(fault.victim)
    done = victim is not None and send(victim, signal.SIGKILL)
    if fault.victim == "endpoint" and subject.endpoint is not None:
        subject.endpoint.process.wait(10)
        subject.endpoint.restart_if_dead()
    return done


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
    if fault.victim == "endpoint" and subject.endpoint is not None:
        subject.endpoint.proxy.cut()
        _wait(subject, fault.seconds)
        subject.endpoint.proxy.restore()
        return True
    try:
        with unreachable(subject.socket(), place):
            _wait(subject, fault.seconds)
    except OSError:
        return False
    return True


def slow(subject: Subject, fault: Fault, place: Path) -> bool:
    if fault.victim == "endpoint" and subject.endpoint is not None:
        subject.endpoint.proxy.delay_s = 5 * SLOW_S
        _wait(subject, fault.seconds)
        subject.endpoint.proxy.delay_s = 0.0
        return True
    try:
        with slowed(subject.socket(), place, SLOW_S):
            _wait(subject, fault.seconds)
    except OSError:
        return False
    return True


def fill_disk(subject: Subject, fault: Fault, place: Path) -> bool:
    return fill_farm(subject, fault, place) if fault.victim == "farm" else fill_output(subject, fault, place)


def fill_farm(subject: Subject, fault: Fault, place: Path) -> bool:
    """The disk with Valkey's data, the pid records and the logs.  Without a separate disk Valkey's file cannot grow."""
    if not subject.small_farm_disk:
        return refuse(subject, fault, place)
    ballast = subject.folder.farm / BALLAST
    try:
        with ballast.open("wb", buffering=0) as out:
            for size in (65536, 1024, 1):
                _fill(out.write, bytes(size), FARM_DISK_KB)
        _wait(subject, fault.seconds)
    finally:
        ballast.unlink(missing_ok=True)
    return True


def refuse(subject: Subject, fault: Fault, place: Path) -> bool:
    """Valkey refuses writes: for want of memory, or because its file cannot grow."""
    valkey = subject.process_of("valkey")
    if valkey is None:
        return False
    try:
        if fault.victim == "memory":
            with redis.Redis(unix_socket_path=str(subject.socket()), socket_timeout=5) as client:
                before = str(client.config_get("maxmemory")["maxmemory"])
                client.config_set("maxmemory", "1")
                _wait(subject, fault.seconds)
                client.config_set("maxmemory", before)
        else:
            valkey.rlimit(psutil.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            _wait(subject, fault.seconds)
            valkey.rlimit(psutil.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (psutil.Error, redis.RedisError):
        return False
    return True


def fall_silent(subject: Subject, fault: Fault, place: Path) -> bool:
    """The connections that are open stay open until the run ends, and nothing comes through them."""
    if fault.victim == "endpoint" and subject.endpoint is not None:
        subject.endpoint.proxy.silence()
        return True
    try:
        subject.silent.append(silenced(subject.socket(), place, lambda: _wait(subject, SETTLE_S)))
    except OSError:
        return False
    return True


def fail_over(subject: Subject, fault: Fault, place: Path) -> bool:
    try:
        with failed_over(subject.socket(), place, subject.folder.folder / "second", until):
            _wait(subject, fault.seconds)
    except NoFailover:
        return False
    return True


def step_clock(subject: Subject, fault: Fault, place: Path) -> bool:
    """A step of the wall clock, forwards or backwards, and back again."""
    if subject.clock is None:
        return False
    share = fault.seconds / LONGEST_S
    subject.clock.step(LONGEST_STEP_S * share * (1 if fault.after % 2 else -1))
    _wait(subject, fault.seconds)
    subject.clock.step(0)
    return True


def own_twice(subject: Subject, fault: Fault, place: Path) -> bool:
    """A second `evolve` on the folder of the run, or on a copy of it.  Raises: Unexpected when it is not refused."""
    command = subject.folder.command("--plain")
    if fault.victim == "fresh":
        command.append("--fresh")
    copy = subject.folder.folder / "copy"
    if fault.victim == "copy":
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(subject.folder.output, copy, ignore=shutil.ignore_patterns(".*"))
        command[command.index("--output") + 1] = str(copy)
    try:
        done = subject.second_owner(command)
    except subprocess.TimeoutExpired as error:
        raise Unexpected(f"a second owner ({fault.victim}) did not end: {error.stdout!r}") from None
    if subject.ended:
        return False
    if done.returncode not in REFUSED or "Traceback" in done.stdout or "orchestrator: " not in done.stdout:
        raise Unexpected(f"a second owner ({fault.victim}) ended with {done.returncode}:\n{done.stdout}")
    return True


def fill_output(subject: Subject, fault: Fault, place: Path) -> bool:
    """Until the run has failed to write, or has ended.  Without a separate disk the limit of a file is 0 bytes."""
    orchestrator = subject.process_of("orchestrator")
    if orchestrator is None:
        return False
    if not subject.small_disk:
        before = orchestrator.rlimit(psutil.RLIMIT_FSIZE)
        orchestrator.rlimit(psutil.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        until(lambda: subject.ended, FULL_S)
        if not subject.ended:
            orchestrator.rlimit(psutil.RLIMIT_FSIZE, before)
        return True
    ballast = subject.folder.output / BALLAST
    try:
        with ballast.open("wb", buffering=0) as out:
            for size in (65536, 1024, 1):
                _fill(out.write, bytes(size), DISK_KB)
        until(lambda: subject.ended, FULL_S)
    finally:
        ballast.unlink(missing_ok=True)
    return True


def faulty_replies(subject: Subject, fault: Fault, place: Path) -> bool:
    """Faulty replies of the endpoint, until one was sent."""
    before = subject.faulty_reply_count()
    if not subject.set_faults(STORMS[fault.kind]):
        return False
    until(lambda: subject.faulty_reply_count() > before or subject.ended, 60)
    return subject.faulty_reply_count() > before


def _fill(write: Callable[[bytes], object], piece: bytes, size_kb: int) -> None:
    try:
        for _ in range(size_kb * 1024 // len(piece) + 1):
            write(piece)
    except OSError:
        return


def _wait(subject: Subject, seconds: float) -> None:
    """Wait `seconds`, or until the run has ended."""
    until(lambda: subject.ended, seconds)


CAUSES: Mapping[Kind, Callable[[Subject, Fault, Path], bool]] = {
    "kill -9": kill,
    "stop and continue": stop_and_continue,
    "broker restart": restart_broker,
    "connection cut": cut,
    "slow network": slow,
    "disk full": fill_disk,
    "429 storm": faulty_replies,
    "500s": faulty_replies,
    "invalid JSON": faulty_replies,
    "hung target": hang,
    "refusing store": refuse,
    "silent connection": fall_silent,
    "failover": fail_over,
    "clock step": step_clock,
    "second owner": own_twice,
}
