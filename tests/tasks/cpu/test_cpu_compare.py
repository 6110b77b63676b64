"""The cpu jobs of a `route` run: what they are given and give back, as JSON."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tasks.cpu.compare import compare_deployments
from tasks.cpu.pool import make_pool
from tasks.job import Job
from tasks.route.claims import EvaluatedDeployment, Thresholds, compare_claims
from tasks.route.jobs import data_key
from tasks.store.store import Store
from tasks.validation import InvalidData

PROBLEMS = Path(__file__).parents[3] / "configs" / "routing" / "problems.jsonl"
FOUND = [
    EvaluatedDeployment("shared", 0, name, "B", "off", "10", hacked)
    for name, hacked in (("none", "11"), ("real", "00"))
]
CLAIMS = Thresholds("B", 0.3, 0.05, 0.5, 0.05)


def test_deployments_are_compared(store: Store) -> None:
    arguments = {"records": [dataclasses.asdict(each) for each in FOUND], "claims": dataclasses.asdict(CLAIMS)}
    assert compare_deployments(Job(store, "run", "key", arguments)) == compare_claims(FOUND, CLAIMS)
    with pytest.raises(InvalidData):
        compare_deployments(Job(store, "run", "key", {**arguments, "claims": {}}))


def test_the_pool_is_graded_rows_of_the_pool_s_problems(store: Store) -> None:
    lines = PROBLEMS.read_text().splitlines()
    pool = next(line for line in lines if '"pool"' in line)
    text = "\n".join([pool, next(line for line in lines if '"train"' in line)])
    store.put_shared("run", data_key(text), {"text": text})
    rows = make_pool(Job(store, "run", "key", {"inputs": {"data": {"problems": data_key(text)}}}))["rows"]
    assert [row["exploited"] for row in rows] == [True] * 5 + [False] * 2
    assert [row["oracle"] for row in rows] == [False] * 5 + [True] * 2
