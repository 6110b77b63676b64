"""The count of a test set's uses, in a real Valkey."""

from __future__ import annotations

from tasks.store.store import Store
from tasks.store.uses import record_use


def test_a_use_counts_once_for_its_set(store: Store) -> None:
    assert [record_use(store.redis, "a set", use) for use in ("one", "one", "two")] == [1, 1, 2]
    assert record_use(store.redis, "another set", "one") == 1
