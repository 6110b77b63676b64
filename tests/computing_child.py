"""A child that computes, for tests: `python -m computing_child WHAT`, which is a key of `WORK`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from tasks.common.child import SendReport, work_as_child


def wait(report: SendReport) -> dict[str, object]:
    """Report the own pid, and wait for ever."""
    report(pid=os.getpid())
    while True:
        signal.pause()


def family(report: SendReport) -> dict[str, object]:
    """As `wait`, with a process of its own, and SIGTERM does not end it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    other = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    report(pid=os.getpid(), other=other.pid)
    while True:
        signal.pause()


def leave(report: SendReport) -> dict[str, object]:
    """End, and leave a copy behind, which holds the pipe open."""
    if other := os.fork():
        return {"other": other}
    while True:
        signal.pause()


def break_off(report: SendReport) -> dict[str, object]:
    """End in the middle of a report."""
    os.write(PIPE, b'{"stage": "one')
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def refuse(report: SendReport) -> dict[str, object]:
    raise LookupError("two lines\nof a reason")


class OutOfMemoryError(RuntimeError):
    """As torch's, of the module that is given on standard input."""


def fill(report: SendReport) -> dict[str, object]:
    """End as torch does when its allocator finds no memory on the card, while another error is handled."""
    OutOfMemoryError.__module__ = sys.stdin.read()
    try:
        raise LookupError
    except LookupError:
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")  # noqa: B904


def fill_context(report: SendReport) -> dict[str, object]:
    """End as torch does when CUDA itself finds none: with lines of advice."""
    advice = "CUDA kernel errors might be asynchronously reported.\nCompile with `TORCH_USE_CUDA_DSA`."
    raise RuntimeError(f"CUDA error: {sys.stdin.read()}\n{advice}\n")


def mention(report: SendReport) -> dict[str, object]:
    """Go on when the card was full, say so as a library might, and fail for another reason."""
    try:
        raise OutOfMemoryError("CUDA error: out of memory")
    except OutOfMemoryError as error:
        raise KeyError("another") from error


def silent(report: SendReport) -> dict[str, object]:
    os._exit(0)


WORKS = (wait, family, leave, break_off, refuse, fill, fill_context, mention, silent)
WORK = {each.__name__: each for each in WORKS}
if __name__ == "__main__":
    PIPE = int(sys.argv[-1])
    raise SystemExit(work_as_child(WORK[sys.argv[1]], LookupError))
