"""The GPU of a gpu worker: no other worker of this host uses it meanwhile, and it serves or computes, never both.

A claim is a lock on a file, which the kernel releases when the last process that holds it has ended.  The server holds
it too, so a GPU becomes free only when its memory does.  WHETSTONE_GPU_LOCKS names a volume that containers of one host
share.  WHETSTONE_GPU names the GPU; without it a worker takes the first free one of CUDA_VISIBLE_DEVICES, or of all.
"shared" claims none: the user then makes sure that the memory suffices.

A task that computes waits until nobody is served any more, and from then on nobody new is served: training goes first.
Who wants to be served meanwhile is refused, and its message goes back.  Tasks that compute share the card; one that
computes alone waits for the others, and new ones wait for it.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tasks.common.files import private_folder
from tasks.gpu.host import CardComputes, CardUse

GPU_VARIABLE = "WHETSTONE_GPU"
VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"
LOCKS_VARIABLE = "WHETSTONE_GPU_LOCKS"  # the folder of the locks
# Of the host, whatever TMPDIR a worker was started with: a job of Slurm and a service of systemd have their own.
HOST_FOLDER = Path("/dev/shm" if os.path.isdir("/dev/shm") else "/tmp")
SHARED = "shared"
RELEASE_S = 15.0  # how long the server of a killed worker may still hold its GPU
PAUSE_S = 0.2
CHECK_S = 0.5  # how often a task that waits for the card checks whether it still should


class GpuUnavailable(RuntimeError):
    """There is no GPU for this worker; the message is the reason in one line."""


@dataclass(frozen=True)
class Gpu:
    index: int  # in nvidia-smi
    name: str

    def environment(self) -> dict[str, str]:
        """Environment variables that make it the only GPU of a process."""
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", VISIBLE_VARIABLE: str(self.index)}

    def describe(self) -> dict[str, Any]:
        """Its part of a worker's report: memory in bytes, and the share of time in which it computes."""
        utilization = None  # where the driver does not report it, for example for a GPU that is divided by MIG
        with _driver() as nvml:
            handle = nvml.nvmlDeviceGetHandleByIndex(self.index)
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
            with suppress(nvml.NVMLError):
                utilization = float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu) / 100
        used, total = int(memory.used), int(memory.total)
        return {"index": self.index, "name": self.name, "used": used, "total": total, "utilization": utilization}


@contextmanager
def _driver() -> Iterator[Any]:
    """NVIDIA's library, whose errors are a reason that there is no GPU."""
    try:
        import pynvml
    except ImportError as error:
        raise GpuUnavailable(
            "the package nvidia-ml-py is not installed: install this project with its extra 'gpu'"
        ) from error
    try:
        pynvml.nvmlInit()
        yield pynvml
    except pynvml.NVMLError as error:
        raise GpuUnavailable(f"no GPU on this machine that a driver answers for ({error})") from error


@dataclass(frozen=True)
class Claim:
    """A claimed GPU, until `release`, or until this process and those that inherited `lock` have ended."""

    gpu: Gpu
    lock: IO[bytes]

    def release(self) -> None:
        self.lock.close()


def available_gpus() -> list[Gpu]:
    with _driver() as nvml:
        handles = [(i, nvml.nvmlDeviceGetHandleByIndex(i)) for i in range(nvml.nvmlDeviceGetCount())]
        gpus = [Gpu(index, str(nvml.nvmlDeviceGetName(handle))) for index, handle in handles]
    if not gpus:
        raise GpuUnavailable("no GPU on this machine")
    return gpus


def eligible(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> list[Gpu]:
    """The GPUs that this worker may use, in the order in which it tries them."""
    requested, visible = environment.get(GPU_VARIABLE), environment.get(VISIBLE_VARIABLE)
    listed = visible.split(",") if visible is not None else [str(gpu.index) for gpu in gpus]
    if requested:
        listed = [requested]
    matching = [gpu for name in listed for gpu in gpus if name.strip() == str(gpu.index)]
    if not matching:
        variable, value = (GPU_VARIABLE, requested) if requested else (VISIBLE_VARIABLE, visible)
        existing = ", ".join(f"{gpu.index} ({gpu.name})" for gpu in gpus)
        raise GpuUnavailable(f"{variable} is {value!r}, and the GPUs of this machine are {existing}")
    return matching


def claim_own(environment: Mapping[str, str], cancelled: threading.Event) -> Claim:
    """A GPU of this host for a worker with this environment; waits `RELEASE_S` seconds when all are in use."""
    folder = environment.get(LOCKS_VARIABLE)
    gpus, deadline = eligible(available_gpus(), environment), time.monotonic() + RELEASE_S
    while True:
        try:
            return claim(gpus, Path(folder) if folder else None)
        except GpuUnavailable:
            if time.monotonic() > deadline or cancelled.wait(PAUSE_S):
                raise


def claim(gpus: Sequence[Gpu], folder: Path | None = None) -> Claim:
    """The first of `gpus` that no other worker of this host has claimed; `folder` holds the locks."""
    try:
        folder = private_folder(folder or HOST_FOLDER / f"whetstone-gpus-{os.getuid()}")
    except OSError as error:
        raise GpuUnavailable(f"the folder of the locks: {error}") from error
    for gpu in gpus:
        lock = (folder / f"gpu-{gpu.index}").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        return Claim(gpu, lock)
    numbers = " and ".join(str(gpu.index) for gpu in gpus)
    raise GpuUnavailable(
        f"GPU {numbers} of this machine is in use by another worker; {GPU_VARIABLE} names another one, or {SHARED!r}"
    )


class Card:
    """May be used from several threads.  A thread that is being served may enter `serving` again."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._serving = 0
        self._computing = 0  # tasks that compute, or wait to
        self._running = 0  # those of them that have begun
        self._alone = 0  # those of them that compute alone, or wait to
        self._own = threading.local()

    @property
    def use(self) -> CardUse:
        """`computes` also while a task only waits to compute."""
        with self._changed:
            return "computes" if self._computing else "serves" if self._serving else ""

    @contextmanager
    def serving(self) -> Iterator[None]:
        depth = getattr(self._own, "depth", 0)
        with self._changed:
            if self._computing and not depth:
                raise CardComputes("the card of this worker computes")
            self._serving += 1
        self._own.depth = depth + 1
        try:
            yield
        finally:
            self._own.depth = depth
            with self._changed:
                self._serving -= 1
                self._changed.notify_all()

    @contextmanager
    def computing(self, check: Callable[[], None], *, alone: bool = False) -> Iterator[None]:
        """`check` is called while this waits, and may raise."""
        with self._changed:
            self._computing += 1
            self._alone += alone
        begun = False
        try:
            while not (begun := self._begins(alone)):
                check()
            yield
        finally:
            with self._changed:
                self._computing -= 1
                self._alone -= alone
                self._running -= begun
                self._changed.notify_all()

    def _begins(self, alone: bool) -> bool:
        """Whether its turn comes within `CHECK_S` seconds; then it counts as running."""
        with self._changed:
            is_free = self._changed.wait_for(
                lambda: not (self._serving or (self._running if alone else self._alone)), CHECK_S
            )
            self._running += is_free
            return is_free
