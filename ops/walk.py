"""Runs the commands of docs/operations.md, in order, in one shell, in a clone of its own: `make walk`.

It needs a Docker engine and Compose, and takes a quarter of an hour.  Containers, volumes and the clone are always
removed at the end; images stay.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Where Compose is a program of its own, the page tells the reader to use its name; this function does it.
PRELUDE = """set -euo pipefail
if ! command docker compose version > /dev/null 2>&1; then
    docker() { if [ "$1" = compose ]; then shift; command docker-compose "$@"; else command docker "$@"; fi; }
fi
"""
TAKE_DOWN = """
for folder in whetstone second-host second-farm; do
    [ ! -d $folder ] || (cd $folder; docker compose down --volumes --timeout 20) || true
done
"""


def blocks(page: str) -> list[str]:
    """The blocks of a Markdown text that are marked `sh`."""
    return re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def script(page: str) -> str:
    """One shell script that prints each command before it runs it."""
    return PRELUDE + "PS4='+ '\nset -x\n" + "\n".join(blocks(page))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="print what would be run, and run nothing")
    arguments = parser.parse_args()
    commands = script((ROOT / "docs" / "operations.md").read_text("utf-8"))
    if arguments.show:
        print(commands)
        return 0
    folder = Path(tempfile.mkdtemp(prefix="walk-"))
    try:
        clone = folder / "whetstone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        return subprocess.run(["bash", "-c", commands], cwd=clone, check=False).returncode
    finally:
        subprocess.run(["bash", "-c", PRELUDE + TAKE_DOWN], cwd=folder, check=False)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
