"""What a rule finds to be unneeded is what is removed, but for what has been used in between."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from orchestrator.farm.cleanup import CleanupRule, Removed, find_unneeded, remove_unneeded
from tasks.store import keys
from tasks.store.retention import Retention
from tasks.store.store import Store

DAY_S = 24 * 3600


def put_run(store: Store, run: str, state: str, days_ago: float) -> None:
    store.set_requirements(run, "code", "model")
    store.put_metadata(run, keys.STATUS, json.dumps({"state": state, "updated": time.time() - days_ago * DAY_S}))


def put_result(store: Store, run: str, letter: str, released_days_ago: float | None) -> str:
    """A result of the run, which has released it so many days ago, and keeps results for 30 days."""
    key = f"answer:{letter * 64}"
    store.put_shared(run, key, {"text": "x" * 100_000})
    if released_days_ago is not None:
        store.release_shared(run, int((30 - released_days_ago) * DAY_S))
    return key


def touch(path: Path, days_ago: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("text")
    then = time.time() - days_ago * DAY_S
    os.utime(path, (then, then))
    return path


def test_what_is_old_is_found_and_removed(store: Store, tmp_path: Path) -> None:
    put_run(store, "ended", "finished", 8)
    put_run(store, "parked", "parked", 800)
    put_result(store, "ended", "a", released_days_ago=8)
    put_result(store, "ended", "b", released_days_ago=6)
    put_result(store, "parked", "c", released_days_ago=None)
    old = touch(tmp_path / "logs" / "gpu.log.2", 8)
    kept = [touch(tmp_path / "logs" / "gpu.log", 8), touch(tmp_path / "labels" / "f.npy", 1)]
    rule = CleanupRule(days=7)

    found = find_unneeded(store.retention, tmp_path, rule)

    assert [run.run for run in found.runs] == ["ended"] and [run.run for run in found.other_runs] == ["parked"]
    assert [result.key[-1] for result in found.results] == ["a"]
    assert [file.path for file in found.files] == [old]
    assert store.run_ids() == ["ended", "parked"] and old.exists(), "nothing was changed"
    assert remove_unneeded(store.retention, found, rule) == Removed(1, 1, 1)
    assert store.run_ids() == ["parked"]
    assert store.redis.exists(*(f"whetstone:answer:{letter * 64}" for letter in "abc")) == 2
    assert not old.exists() and all(path.exists() for path in kept)


def test_a_limit_of_the_memory_removes_those_that_expire_first(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put_run(store, "at work", "running", 0)
    for number, letter in enumerate("cab"):
        put_result(store, "at work", letter, released_days_ago=number)
    # One reading for both: the server's own buffers of these results may be freed in between.
    used, limit = store.retention.memory()
    monkeypatch.setattr(Retention, "memory", lambda _: (used, limit))
    rule = CleanupRule(days=30, most_bytes=used - 150_000)
    assert [r.key[-1] for r in find_unneeded(store.retention, None, rule).results] == ["b", "a"]


@pytest.mark.parametrize("used_again", ["result", "run", "file"])
def test_what_is_used_after_it_was_found_stays(store: Store, tmp_path: Path, used_again: str) -> None:
    put_run(store, "ended", "finished", 8)
    key = put_result(store, "ended", "a", released_days_ago=8)
    file = touch(tmp_path / "labels" / "f.npy", 8)
    rule = CleanupRule(days=7)
    found = find_unneeded(store.retention, tmp_path, rule)
    put_run(store, "new", "running", 0)

    if used_again == "result":
        store.shared("new", [key])
    elif used_again == "run":
        put_run(store, "ended", "running", 0)
    else:
        os.utime(file)

    removed = remove_unneeded(store.retention, found, rule)
    assert removed == Removed(*(int(kind != used_again) for kind in ("run", "result", "file")))
