"""What runs share in one store, on a real Valkey."""

from __future__ import annotations

from test_store_runs import make_run

from tasks.store.store import Store


def test_a_shared_result_outlives_the_runs_but_the_last_that_used_it(store: Store) -> None:
    for run_id in ("one", "two"):
        store.put_run(make_run(run_id))
    store.put_shared("one", "answer:x", {"text": "first"})
    store.put_shared("two", "answer:x", {"text": "second"})
    assert store.shared("two", ["answer:x", "answer:y"]) == {"answer:x": {"text": "first"}}
    store.delete_run("one")
    assert store.run_ids() == ["two"]
    assert store.shared("two", ["answer:x"]) == {"answer:x": {"text": "first"}}
    store.delete_run("two")
    assert store.redis.keys("*") == []
