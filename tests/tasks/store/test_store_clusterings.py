"""Clusterings in a real Valkey."""

from __future__ import annotations

import json

import pytest

from tasks.store.store import Store


def test_descriptions_of_a_run_take_the_place_of_those_of_its_clustering(store: Store) -> None:
    with pytest.raises(LookupError, match="run r has no clustering"):
        store.clusterings.descriptions("r")
    store.clusterings.put("r", "c", b"labels", json.dumps([{"id": 0, "description": "by rules"}]))
    store.put_metadata("r", "clustering", "c")
    assert store.clusterings.descriptions("r") == [{"id": 0, "description": "by rules"}]
    store.put_metadata("r", "descriptions", json.dumps([{"id": 0, "description": "by the reflector"}]))
    assert store.clusterings.descriptions("r") == [{"id": 0, "description": "by the reflector"}]


def test_a_run_has_clusterings_of_its_arms_beside_its_own(store: Store) -> None:
    for name in ("c", "arm"):
        store.clusterings.put("r", name, b"labels", json.dumps([{"id": 0, "description": name}]))
    assert store.clusterings.descriptions("r", "arm")[0]["description"] == "arm"
    store.put_metadata("r", "clustering", "c")
    store.put_metadata("r", "descriptions", json.dumps([{"id": 0, "description": "by the reflector"}]))
    # Its own are described as the run says, those of an arm as they were made
    assert [store.clusterings.chosen("r"), store.clusterings.chosen("r", "arm")] == ["c", "arm"]
    found = [store.clusterings.descriptions("r", name)[0]["description"] for name in ("", "c", "arm")]
    assert found == ["by the reflector", "by the reflector", "arm"]
    # And both stay until the run releases them
    store.release_shared("r")
    assert {store.redis.ttl(f"whetstone:clustering:{name}") for name in ("c", "arm")} == {-1}
    store.clusterings.release("r", 60)
    assert all(0 < store.redis.ttl(f"whetstone:clustering:{name}") <= 60 for name in ("c", "arm"))  # type: ignore[operator]
