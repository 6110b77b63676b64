"""Clusterings in a real Valkey."""

from __future__ import annotations

import json

import pytest

from tasks.models import ClusterFigures
from tasks.store.store import Store


def test_the_figures_of_a_clustering_come_back(store: Store) -> None:
    store.clusterings.put("r", "by-meaning", b"", "[]")
    assert store.clusterings.figures("by-meaning") == ClusterFigures(eos=0, pinned=None, log_odds=())
    figures = ClusterFigures(0, 3, (0.0, -0.5, 1.25, 0.0))
    store.clusterings.put("r", "by-waste", b"", "[]", figures)
    assert store.clusterings.figures("by-waste") == figures
    with pytest.raises(KeyError, match="elsewhere"):
        store.clusterings.figures("elsewhere")


def test_descriptions_of_a_run_take_the_place_of_those_of_its_clustering(store: Store) -> None:
    with pytest.raises(KeyError, match="no clustering of run 'r'"):
        store.clusterings.descriptions("r")
    store.clusterings.put("r", "c", b"labels", json.dumps([{"id": 0, "description": "by rules"}]))
    store.put_metadata("r", "clustering", "c")
    assert store.clusterings.descriptions("r") == [{"id": 0, "description": "by rules"}]
    store.put_metadata("r", "descriptions", json.dumps([{"id": 0, "description": "by the reflector"}]))
    assert store.clusterings.descriptions("r") == [{"id": 0, "description": "by the reflector"}]


def test_labels_come_back_by_the_hash(store: Store) -> None:
    assert not store.clusterings.hold("r", "c")
    store.clusterings.put("r", "c", b"labels", "[]")
    assert store.clusterings.hold("r", "c") and store.clusterings.labels("c") == b"labels"
    with pytest.raises(KeyError, match="elsewhere"):
        store.clusterings.labels("elsewhere")
