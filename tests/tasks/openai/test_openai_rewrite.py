"""What the reflector is asked for a whole vector, and which replies are usable."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.openai.calls import Invalid
from tasks.openai.rewrite import check_rewrite, free_clusters

IDS = ("0", "1", "10")
DELTAS = {"0": 0.0, "1": 0.5, "10": -1.25}
DESCRIPTIONS = [{"id": int(i), "description": f"cluster {i}", "examples": ["the"], "count": 3} for i in IDS]


def test_pinned_clusters_are_not_asked_for() -> None:
    descriptions, deltas = free_clusters(DESCRIPTIONS, DELTAS, pinned=(1,))
    assert list(deltas) == [cluster for cluster in IDS if cluster != IDS[1]]
    assert [str(described["id"]) for described in descriptions] == list(deltas)
    assert free_clusters(DESCRIPTIONS, DELTAS, pinned=()) == (DESCRIPTIONS, DELTAS)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"deltas": {"0": 1, "1": float("nan"), "10": 0}, "summary": ""}, "cluster 1 is not within"),
        ({"deltas": {"0": 10**400, "1": 0, "10": 0}, "summary": ""}, "cluster 0 is not within"),
    ],
)
def test_unusable_replies(data: Any, reason: str) -> None:
    result = check_rewrite(data, IDS)
    assert isinstance(result, Invalid)
    assert reason in result.reason
