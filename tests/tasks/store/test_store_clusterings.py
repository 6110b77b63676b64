"""Clusterings in a real Valkey."""

from __future__ import annotations

import json

import pytest

from tasks.store.store import Store


def test_descriptions_of_a_run_take_the_place_of_those_of_its_clustering(store: Store) -> None:
    with pytest.raises(KeyError, match="no clustering of run 'r'"):
        store.clusterings.descriptions("r")
    store.clusterings.put("r", "c", b"labels", json.dumps([{"id": 0, "description": "by rules"}]))
    store.put_metadata("r", "clustering", "c")
    assert store.clusterings.descriptions("r") == [{"id": 0, "description": "by rules"}]
    store.put_metadata("r", "descriptions", json.dumps([{"id": 0, "description": "by the reflector"}]))
    assert store.clusterings.descriptions("r") == [{"id": 0, "description": "by the reflector"}]
