"""How each kind of fault is done to a scene.  Each says whether it happened."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
from chaos_network import away, slowly
from chaos_plan import Fault, Kind
from chaos_scene import DISK_KB, Scene, send, until

SLOW_S = 0.1  # each piece in each direction
STORMS: Mapping[Kind, str] = {
    "429 storm": "*:rate_limit:0.3:10",
    "500s": "*:500:5",
    "invalid JSON": "*:invalid_json:1",
}
HUNG_S = 120.0  # in which the farm must have noticed
FULL_S = 30.0  # in which a run must have met its full disk
BALLAST = ".ballast"


def inflict(scene: Scene, fault: Fault, place: Path) -> bool:
    """Do it and, for what lasts, undo it.  `place` is a free path, short enough for a socket.

    False when there was nothing to do it to: the victim was not there, or the run ended first.
    """
    return DOING[fault.kind](scene, fault, place)


def kill(scene: Scene, fault: Fault, place: Path) -> bool:
    victim = scene.victim(fault.victim)
    done = victim is not None and send(victim, signal.SIGKILL)
    if fault.victim == "endpoint" and scene.endpoint is not None:
        scene.endpoint.process.wait(10)
        scene.endpoint.look()
    return done


def stop_and_continue(scene: Scene, fault: Fault, place: Path) -> bool:
    victim = scene.victim(fault.victim)
    if victim is None or not send(victim, signal.SIGSTOP):
        return False
    _wait(scene, fault.seconds)
    send(victim, signal.SIGCONT)
    return True


def hang(scene: Scene, fault: Fault, place: Path) -> bool:
    """Stopped and never continued: the farm must notice and start another one."""
    victim = scene.victim("target")
    if victim is None or not send(victim, signal.SIGSTOP):
        return False
    until(lambda: not victim.is_running() or scene.ended, HUNG_S)
    return True


def restart_broker(scene: Scene, fault: Fault, place: Path) -> bool:
    victim = scene.victim("valkey")
    return victim is not None and send(victim, signal.SIGTERM)


def cut(scene: Scene, fault: Fault, place: Path) -> bool:
    if fault.victim == "endpoint" and scene.endpoint is not None:
        scene.endpoint.line.cut()
        _wait(scene, fault.seconds)
        scene.endpoint.line.mend()
        return True
    try:
        with away(scene.socket(), place):
            _wait(scene, fault.seconds)
    except OSError:
        return False
    return True


def slow(scene: Scene, fault: Fault, place: Path) -> bool:
    if fault.victim == "endpoint" and scene.endpoint is not None:
        scene.endpoint.line.delay_s = 5 * SLOW_S
        _wait(scene, fault.seconds)
        scene.endpoint.line.delay_s = 0.0
        return True
    try:
        with slowly(scene.socket(), place, SLOW_S):
            _wait(scene, fault.seconds)
    except OSError:
        return False
    return True


def fill_disk(scene: Scene, fault: Fault, place: Path) -> bool:
    """Until the run has met it, or has ended.  Without a disk of its own it may write no file larger than nothing."""
    orchestrator = scene.victim("orchestrator")
    if orchestrator is None:
        return False
    if not scene.small_disk:
        before = orchestrator.rlimit(psutil.RLIMIT_FSIZE)
        orchestrator.rlimit(psutil.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        until(lambda: scene.ended, FULL_S)
        if not scene.ended:
            orchestrator.rlimit(psutil.RLIMIT_FSIZE, before)
        return True
    ballast = scene.place.output / BALLAST
    try:
        with ballast.open("wb", buffering=0) as out:
            for size in (65536, 1024, 1):
                _fill(out.write, bytes(size))
        until(lambda: scene.ended, FULL_S)
    finally:
        ballast.unlink(missing_ok=True)
    return True


def spoil(scene: Scene, fault: Fault, place: Path) -> bool:
    """Replies that are not what was asked for, until one was given."""
    before = scene.spoilt()
    if not scene.set_faults(STORMS[fault.kind]):
        return False
    until(lambda: scene.spoilt() > before or scene.ended, 60)
    return scene.spoilt() > before


def _fill(write: Callable[[bytes], object], piece: bytes) -> None:
    try:
        for _ in range(DISK_KB * 1024 // len(piece) + 1):
            write(piece)
    except OSError:
        return


def _wait(scene: Scene, seconds: float) -> None:
    """So long, or until the run has ended."""
    until(lambda: scene.ended, seconds)


DOING: Mapping[Kind, Callable[[Scene, Fault, Path], bool]] = {
    "kill -9": kill,
    "stop and continue": stop_and_continue,
    "broker restart": restart_broker,
    "connection cut": cut,
    "slow network": slow,
    "disk full": fill_disk,
    "429 storm": spoil,
    "500s": spoil,
    "invalid JSON": spoil,
    "hung target": hang,
}
