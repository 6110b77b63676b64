"""One server for several commands: starts it, then runs the commands, one after the other or together.

Each command finds the server's address in the variable WHETSTONE_GUIDE_URL and its key in SGLANG_API_KEY; its output
is in the folder as 1.log, 2.log, and is printed when it has ended.  After `--seconds`, or at SIGTERM, what still runs
is ended with all that it has started.

`python benchmarks/gpu/guide_served.py --model FOLDER --folder WORK "python A.py ..." "python B.py ..."`
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from benchmarks.gpu import common
from benchmarks.gpu.guide_asking import (
    ARGUMENTS_VARIABLE,
    URL_VARIABLE,
    add_server_options,
    end_on_sigterm,
    open_asking,
)

STOP_S = 20.0
LEFTOVER_S = 5.0  # for what a command has left behind


class Commands:
    """Runs commands until a deadline, in monotonic seconds, or until `stop`; each is a process group of its own.

    `folder` takes their logs, and groups.txt with the ids of the groups that run.
    """

    def __init__(self, folder: Path, deadline: float) -> None:
        self._folder, self._deadline = folder, deadline
        self._running: set[int] = set()
        self._lock = threading.Lock()
        self._is_stopping = False

    def stop(self) -> None:
        """End what runs, with SIGTERM for its whole group, and begin nothing more."""
        self._is_stopping = True
        for group in list(self._running):
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGTERM)

    def run(self, number: int, command: list[str]) -> int:
        """The exit status of a command; one that is interrupted at the deadline has that of SIGTERM."""
        if self._is_stopping or time.monotonic() > self._deadline:
            return 128 + signal.SIGTERM
        started, log = time.monotonic(), self._folder / f"{number}.log"
        with log.open("w") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
            self._note(process.pid, is_running=True)
            code = self._wait(process)
            self._end_group(process.pid)
            self._note(process.pid, is_running=False)
        print(
            f"$ {shlex.join(command)}\n{log.read_text()}({code} after {time.monotonic() - started:.0f} s)\n", flush=True
        )
        return abs(code)

    def _note(self, group: int, *, is_running: bool) -> None:
        with self._lock:
            (self._running.add if is_running else self._running.discard)(group)
            (self._folder / "groups.txt").write_text("".join(f"{one}\n" for one in sorted(self._running)))

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        try:
            return process.wait(max(0.0, self._deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)  # a shell in the background has made SIGINT ignored
        try:
            return process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        return process.wait()

    def _end_group(self, group: int) -> None:
        """What a command has left behind gets a moment to end, and is then killed."""
        until = time.monotonic() + LEFTOVER_S
        with suppress(ProcessLookupError):
            while time.monotonic() < until:
                os.killpg(group, 0)
                time.sleep(0.1)  # only children can be waited for, and these are not ours
            os.killpg(group, signal.SIGKILL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_server_options(parser)
    parser.add_argument("--at-once", type=int, default=1, help="commands that run side by side (1)")
    parser.add_argument("--seconds", type=float, default=1e9, help="for all commands together")
    parser.add_argument("commands", nargs="+", metavar="COMMAND")
    options = parser.parse_args()
    options.cap = 128
    deadline = time.monotonic() + options.seconds
    end_on_sigterm()
    with open_asking(options) as (asking, _):
        os.environ |= {URL_VARIABLE: asking.url, ARGUMENTS_VARIABLE: common.server_arguments(options)}
        commands = Commands(options.folder, deadline)
        signal.signal(signal.SIGTERM, lambda *_: commands.stop())
        with ThreadPoolExecutor(options.at_once) as pool:
            numbered = enumerate(map(shlex.split, options.commands), start=1)
            doing = [pool.submit(commands.run, number, command) for number, command in numbered]
            codes = [one.result() for one in doing]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
