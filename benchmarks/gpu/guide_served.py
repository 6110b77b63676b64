"""One server for several commands: starts it, then runs the commands, one after the other or together.

Each command finds the server's address in the variable WHETSTONE_GUIDE_URL and its key in SGLANG_API_KEY; its output
is in the folder as 1.log, 2.log, and is printed when it has ended.  After `--seconds` what still runs is ended.

`python benchmarks/gpu/guide_served.py --model FOLDER --folder WORK "python A.py ..." "python B.py ..."`
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.gpu import common
from benchmarks.gpu.guide_asking import ARGUMENTS_VARIABLE, URL_VARIABLE, add_server_options, open_asking

STOP_S = 20.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_server_options(parser)
    parser.add_argument("--at-once", type=int, default=1, help="commands that run side by side (1)")
    parser.add_argument("--seconds", type=float, default=1e9, help="for all commands together")
    parser.add_argument("commands", nargs="+", metavar="COMMAND")
    options = parser.parse_args()
    options.cap = 128
    with open_asking(options) as (asking, _):
        os.environ |= {URL_VARIABLE: asking.url, ARGUMENTS_VARIABLE: common.server_arguments(options)}
        deadline = time.monotonic() + options.seconds
        with ThreadPoolExecutor(options.at_once) as pool:
            doing = [
                pool.submit(run_command, shlex.split(line), options.folder / f"{number}.log", deadline)
                for number, line in enumerate(options.commands, start=1)
            ]
            codes = [one.result() for one in doing]
    return max(codes)


def run_command(command: list[str], log: Path, deadline: float) -> int:
    """The exit status of a command; one that is interrupted at the deadline has that of SIGTERM."""
    if time.monotonic() > deadline:
        return 128 + signal.SIGTERM
    started = time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)  # a shell in the background has made SIGINT ignored
            try:
                code = process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                code = process.wait()
    print(f"$ {shlex.join(command)}\n{log.read_text()}({code} after {time.monotonic() - started:.0f} s)\n", flush=True)
    return abs(code)


if __name__ == "__main__":
    sys.exit(main())
