"""Which code this is: one short name for all source of the packages that do the work.

Two hosts do the same work when they have the same one.  The number of the release does not say that: with
a change on one host alone, two codes have one number.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("tasks", "workers")
SHOWN = 12  # hexadecimal digits


@cache
def code_version() -> str:
    """The hash of every module of PACKAGES, by name and content; a few milliseconds, once a process."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        spec = find_spec(package)
        folder = Path((spec and spec.origin) or package).parent
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{package}/{path.relative_to(folder).as_posix()}\0".encode())
            digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:SHOWN]
