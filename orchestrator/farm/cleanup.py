"""What `orchestrator gc` removes: from the store by the rule of tasks/store/retention.py, and old files of a farm.

`find_unneeded` changes nothing.  `remove_unneeded` decides on each run and result once more, in the store: what a run
has begun to use in between stays.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tasks.store.retention import DAY_S, KEPT_S, Retention, StoredResult, StoredRun

LEAST_FILE_AGE_S = DAY_S  # a server may be about to read a newer one


@dataclass(frozen=True)
class CleanupRule:
    """What is old: after how many days, and from which use of the store's memory on (bytes; None: no limit)."""

    days: float
    most_bytes: int | None = None


@dataclass(frozen=True)
class OldFile:
    """A file of a farm that nothing has used for as long as the rule says."""

    path: Path
    size: int


@dataclass(frozen=True)
class Unneeded:
    """What may be removed, and the other runs, which stay.  `used` and `limit` are the server's memory in bytes."""

    runs: tuple[StoredRun, ...]
    results: tuple[StoredResult, ...]
    files: tuple[OldFile, ...]
    other_runs: tuple[StoredRun, ...]
    used: int
    limit: int


@dataclass(frozen=True)
class Removed:
    """How many runs, results and files were removed."""

    runs: int
    results: int
    files: int


def find_unneeded(retention: Retention, farm: Path | None, rule: CleanupRule) -> Unneeded:
    """What the rule allows to be removed.  `farm` is the folder of an embedded farm."""
    ended = set(retention.finished_before(time.time() - rule.days * DAY_S))
    runs, (used, limit) = retention.runs(), retention.memory()
    old = tuple(run for run in runs if run.run in ended)
    excess = 0 if rule.most_bytes is None else used - sum(run.size for run in old) - rule.most_bytes
    return Unneeded(
        runs=old,
        results=tuple(_old_results(retention.unheld(), KEPT_S - rule.days * DAY_S, excess)),
        files=tuple(_old_files(farm, _file_age_s(rule))) if farm else (),
        other_runs=tuple(run for run in runs if run.run not in ended),
        used=used,
        limit=limit,
    )


def remove_unneeded(retention: Retention, found: Unneeded, rule: CleanupRule) -> Removed:
    """Remove what was found and is still not needed."""
    before = time.time() - rule.days * DAY_S
    runs = sum(retention.remove_finished(run.run, before) for run in found.runs)
    retention.expire_unheld(KEPT_S)
    results = retention.remove_results(found.results)
    files = [file.path for file in found.files if _is_old(file.path, _file_age_s(rule))]
    for path in files:
        path.unlink(missing_ok=True)
    return Removed(runs, results, len(files))


def _file_age_s(rule: CleanupRule) -> float:
    return max(rule.days * DAY_S, LEAST_FILE_AGE_S)


def _old_results(results: Sequence[StoredResult], expires_s: float, excess: int) -> Iterator[StoredResult]:
    """Those that expire within `expires_s` seconds, and more of them, in their order, until `excess` bytes are free."""
    for result in results:
        if result.expires_s > expires_s and excess <= 0:
            return
        excess -= result.size
        yield result


def _old_files(farm: Path, age_s: float) -> Iterator[OldFile]:
    """Rotated logs, and labels that no server was given for `age_s` seconds."""
    for pattern in ("logs/*.[0-9]", "labels/*.npy"):
        for path in sorted(farm.glob(pattern)):
            if _is_old(path, age_s):
                yield OldFile(path, path.lstat().st_size)


def _is_old(path: Path, age_s: float) -> bool:
    """Whether it is a file, and was last written or used at least `age_s` seconds ago."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_mtime < time.time() - age_s
