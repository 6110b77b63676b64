"""`python -I -S die_with_parent.py PARENT SIGNAL COMMAND...`: become COMMAND, which dies with its parent (Linux).

A program of its own, since Python code between fork and exec is not safe in a process that has threads.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1  # outlives exec

if __name__ == "__main__":
    parent, number, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # it died before we asked
            os.kill(os.getpid(), number)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")
