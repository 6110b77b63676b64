"""Descriptions of clusters by the reflector: which replies can be used."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.openai.calls import Invalid
from tasks.openai.describe import LONGEST, check_descriptions

CLUSTERS = [
    {"id": 0, "description": "ends", "examples": ["</s>"], "count": 1},
    {"id": 1, "description": "numbers", "examples": ["1"], "count": 9},
    {"id": 2, "description": "by rule, two", "examples": [" Based", " on\n## Clusters"], "count": 40},
    {"id": 3, "description": "by rule, three", "examples": [" the"], "count": 7},
]


def reply(*described: tuple[int, str]) -> dict[str, Any]:
    return {"descriptions": [{"cluster": c, "description": text} for c, text in described]}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (reply((2, "a")), "describes the clusters [2], not [2, 3]"),
        (reply((2, "a"), (3, "b"), (3, "c")), "[2, 3, 3]"),
        (reply((2, "a"), (3, " \n")), "cluster 3 is empty"),
        (reply((2, "a" * (LONGEST + 1)), (3, "b")), "more than"),
    ],
)
def test_a_reply_that_does_not_describe_each_once_is_invalid(data: dict[str, Any], reason: str) -> None:
    found = check_descriptions(data, CLUSTERS[2:])
    assert isinstance(found, Invalid)
    assert reason in found.reason
