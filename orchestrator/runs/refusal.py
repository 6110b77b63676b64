"""A run that goes on and is refused keeps the settings that it has, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.farm import FarmLost, FarmUnavailable
from orchestrator.runs.folder import RunInUse, write_output
from orchestrator.settings import SettingsError
from tasks.common.logs import SecretError
from tasks.store.client import AddressError


@contextmanager
def restored_if_refused(settings: Path, *others: Path) -> Iterator[None]:
    """Around the start of a run: when it is refused, these files are again what they were.

    It is refused for its settings, because another process works on it, or because its farm has no address or cannot be
    reached.  A farm that is lost later leaves the new settings.  Without an earlier file `settings` the run is a new
    one, and keeps what was written.
    """
    before = {path: path.read_bytes() if path.exists() else None for path in (settings, *others)}
    try:
        yield
    except FarmLost:
        raise
    except (SettingsError, SecretError, AddressError, FarmUnavailable, RunInUse):
        if before[settings] is not None:
            for path, data in before.items():
                if data is None:
                    path.unlink(missing_ok=True)
                else:
                    write_output(path, data)
        raise
