"""What was set aside: the latest first, a bounded number with bounded texts, and deleted at once."""

import json

from tasks.store.keys import SET_ASIDE
from tasks.store.set_aside import LONGEST_TEXT, MOST, SetAside
from tasks.store.store import Store


def test_entries_are_read_with_the_latest_first_and_malformed_ones_left_out(store: Store) -> None:
    kept = SetAside(store.redis)
    kept.add("queue", "not JSON", b"\xff{")
    store.redis.lpush(SET_ASIDE, "garbage", json.dumps({"at": "now"}))
    kept.add("unacked", "too long", "x" * 2 * LONGEST_TEXT)
    latest, first = kept.entries()
    assert (first.place, first.reason, first.text) == ("queue", "not JSON", "\\xff{")
    assert (latest.place, len(latest.text)) == ("unacked", LONGEST_TEXT)


def test_the_list_is_bounded(store: Store) -> None:
    kept = SetAside(store.redis)
    for number in range(MOST + 5):
        kept.add("here", str(number), "")
    assert (kept.count(), kept.entries()[0].reason) == (MOST, str(MOST + 4))


def test_a_renamed_key_keeps_its_value_until_everything_is_deleted(store: Store) -> None:
    kept = SetAside(store.redis)
    store.redis.set("unacked", "something")
    kept.rename("unacked", "a string")
    assert store.redis.get("whetstone:set_aside:unacked") == b"something"
    assert kept.clear() == 1
    assert store.redis.keys("*") == []
