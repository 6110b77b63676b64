"""How often test questions were used, in a real Valkey."""

from __future__ import annotations

from tasks.store.store import Store, record_use


def test_a_use_counts_once_for_each_question_that_it_shares(store: Store) -> None:
    assert [record_use(store.redis, ["q1", "q2"], use) for use in ("one", "one", "two")] == [1, 1, 2]
    assert record_use(store.redis, ["q2", "q3"], "three") == 3
    assert record_use(store.redis, ["q4"], "one") == 1
