"""Run a command that the kernel signals when its parent dies: `python die_with_parent.py PARENT SIGNAL COMMAND...`.

A program of its own, started by path, because Python code between fork and exec is not safe in a process that has
threads.  The request outlives exec.  Where there is no prctl (not Linux) the command just runs.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, signal_number, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal_number)
        if os.getppid() != parent:  # it died before we asked
            os.kill(os.getpid(), signal_number)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
