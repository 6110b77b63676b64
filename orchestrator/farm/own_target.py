"""A target server of this process: a command asks a model without a farm."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks.gpu import host
from workers.sglang.host import LocalTargetHost


@contextmanager
def own_target() -> Iterator[host.TargetHost]:
    """The target host of this process; its server is started by the first request, and stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="whetstone-") as folder:
        made = LocalTargetHost(Path(folder), "own", dict(os.environ))
        host.install(made)
        try:
            yield made
        finally:
            host.install(None)
            made.close()
