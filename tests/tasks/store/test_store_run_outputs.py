"""What a run leaves for its output folder, on a real Valkey."""

from __future__ import annotations

from tasks.store.store import Store


def test_lost_counters_are_restored_once_where_the_reply_is_lost_and_the_command_is_sent_again(store: Store) -> None:
    for _ in range(2):
        store.restore_usage("run-1", {"requests": 2, "cost_usd": 0.5})
    assert store.usage("run-1") == {"requests": 2, "cost_usd": 0.5}
