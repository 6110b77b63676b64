"""Resolves the dependencies again and writes constraints.txt, with the hashes of all their files: `make lock`.

Versions that still fit pyproject.toml stay; `make lock UPGRADE=NAME` takes the newest of one.  `uv` finds the builds of
torch that PyPI has.  What plain pip finds where it is run may be another one (a CPU build), whose hash is added.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from requirements import ROOT, read_locked

FILE = ROOT / "constraints.txt"
HEADER = """\
# All dependencies, with the hashes of their files.  `make lock` writes this file; ops/requirements.py reads it.
"""


def resolve(upgrade: list[str]) -> str:
    """What uv writes, in its order.  Raises: CalledProcessError."""
    options = [part for name in upgrade for part in ("--upgrade-package", name)]
    command = ["uv", "pip", "compile", "pyproject.toml", "--all-extras", "--python-version", "3.11", "--universal"]
    command += ["--generate-hashes", "--no-header", "--annotation-style", "line", "--quiet"]
    subprocess.run([*command, "--output-file", str(FILE), *options], cwd=ROOT, check=True)
    return FILE.read_text("utf-8")


def hash_of_pip(requirement: str) -> str:
    """The sha256 of the file that pip takes for a requirement on this machine.  Raises: CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, requirement]
        subprocess.run(command, check=True)
        [file] = Path(folder).iterdir()
        with file.open("rb") as data:
            return hashlib.file_digest(data, "sha256").hexdigest()


def with_hash(text: str, name: str, digest: str) -> str:
    """The text with one more hash of a distribution, unless it has it."""
    block = read_locked(text)[name].text
    if digest in block:
        return text
    first, rest = block.split("\n", 1)
    return text.replace(block, f"{first}\n    --hash=sha256:{digest} \\\n{rest}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("upgrade", nargs="*", metavar="NAME", help="a distribution to take in its newest version")
    text = resolve(parser.parse_args().upgrade)
    torch = read_locked(text)["torch"].text.split()[0]
    text = with_hash(text, "torch", hash_of_pip(torch))
    FILE.write_text(HEADER + text.removeprefix(HEADER), encoding="utf-8")


if __name__ == "__main__":
    main()
