"""The GPU that a gpu worker owns: no other worker of this host has it, for as long as the worker or its server lives.

A claim is a lock on a file, which the kernel drops when the last process that holds it has ended, however it ends.  The
server holds it too, so a GPU is free again only when its memory is.

WHETSTONE_GPU names the GPU, as nvidia-smi numbers them; without it a worker takes the first one that is free, of
those in CUDA_VISIBLE_DEVICES where that is set.  "shared" claims none: whoever says so looks after the memory.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

GPU_VARIABLE = "WHETSTONE_GPU"
VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"
SHARED = "shared"


class GpuUnavailable(RuntimeError):
    """There is no GPU for this worker; says why in one line."""


@dataclass(frozen=True)
class Gpu:
    """A GPU as nvidia-smi numbers it."""

    index: int
    name: str

    def environment(self) -> dict[str, str]:
        """What makes it the only GPU of a process."""
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", VISIBLE_VARIABLE: str(self.index)}

    def memory(self) -> tuple[int, int]:
        """Used and total, in bytes.  Raises: GpuUnavailable when the driver does not answer."""
        import pynvml

        try:
            pynvml.nvmlInit()
            found = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(self.index))
        except pynvml.NVMLError as error:
            raise GpuUnavailable(f"the driver does not answer for GPU {self.index}: {error}") from error
        return int(found.used), int(found.total)

    def utilization(self) -> float | None:
        """The share of the last moment (a sixth of a second to one) in which the GPU computed, from 0 to 1.

        None where the driver does not tell, as of a GPU that is shared out by MIG.
        """
        import pynvml

        try:
            pynvml.nvmlInit()
            rates = pynvml.nvmlDeviceGetUtilizationRates(pynvml.nvmlDeviceGetHandleByIndex(self.index))
        except pynvml.NVMLError:
            return None
        return float(rates.gpu) / 100


@dataclass(frozen=True)
class Claim:
    """A GPU that is ours until `release`, or until we and those who inherited `lock` have ended."""

    gpu: Gpu
    lock: IO[bytes]

    def release(self) -> None:
        self.lock.close()


def gpus_here() -> list[Gpu]:
    """All GPUs of this host, by their number.  Raises: GpuUnavailable, also where there is none."""
    try:
        import pynvml
    except ImportError as error:
        raise GpuUnavailable(
            "the package nvidia-ml-py is not installed: install this project with its extra 'gpu'"
        ) from error
    try:
        pynvml.nvmlInit()
        handles = [(i, pynvml.nvmlDeviceGetHandleByIndex(i)) for i in range(pynvml.nvmlDeviceGetCount())]
        found = [Gpu(index, str(pynvml.nvmlDeviceGetName(handle))) for index, handle in handles]
    except pynvml.NVMLError as error:
        raise GpuUnavailable(f"no GPU on this machine that a driver answers for ({error})") from error
    if not found:
        raise GpuUnavailable("no GPU on this machine")
    return found


def eligible(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> list[Gpu]:
    """The GPUs that this worker may take, in the order in which it tries them.

    Raises: GpuUnavailable when what the environment names is not there.
    """
    wanted, visible = environment.get(GPU_VARIABLE), environment.get(VISIBLE_VARIABLE)
    listed = visible.split(",") if visible is not None else [str(gpu.index) for gpu in gpus]
    if wanted:
        listed = [wanted]
    found = [gpu for name in listed for gpu in gpus if name.strip() == str(gpu.index)]
    if not found:
        variable, value = (GPU_VARIABLE, wanted) if wanted else (VISIBLE_VARIABLE, visible)
        here = ", ".join(f"{gpu.index} ({gpu.name})" for gpu in gpus)
        raise GpuUnavailable(f"{variable} is {value!r}, and the GPUs of this machine are {here}")
    return found


def claim(gpus: Sequence[Gpu], folder: Path | None = None) -> Claim:
    """The first of `gpus` that nobody on this host has claimed; `folder` holds the locks.

    Raises: GpuUnavailable when all are taken.
    """
    folder = folder or Path(tempfile.gettempdir()) / f"whetstone-gpus-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
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
        f"GPU {numbers} of this machine is another worker's; {GPU_VARIABLE} names another one, or {SHARED!r}"
    )
