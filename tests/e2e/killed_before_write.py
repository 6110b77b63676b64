"""The command `orchestrator`, killed (SIGKILL) in the instant in which it would replace a file of its output folder.

`python killed_before_write.py FILE ARGUMENTS...`: FILE is the file's name; its new content is written beside it, and
not moved to its place any more.
"""

import os
import signal
import sys
from typing import Any

from orchestrator.cli import main


def kill_before_write(name: str) -> None:
    """Kill this process when it renames a file to this name, in any folder."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.rename" and os.path.basename(os.fsdecode(arguments[1])) == name:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


if __name__ == "__main__":
    kill_before_write(sys.argv.pop(1))
    sys.exit(main())
