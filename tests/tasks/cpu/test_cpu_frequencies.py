"""Shards are counted by tasks, kept by content, and merged to what one count of everything gives."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from celery import Task

from tasks import context
from tasks.collect.frequencies import count_shard
from tasks.cpu import frequencies as tasks_of
from tasks.cpu.frequencies import KeyPair, counts_key, merged_key, read_counts
from tasks.job import JobSpec
from tasks.store.address import ENVIRONMENT_VARIABLE
from tasks.store.store import Store

RUN = "collect-test"


@pytest.fixture(autouse=True)
def store_of_the_tasks(store: Store, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker's environment."""
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, valkey_url)
    context.store.cache_clear()


def put_answers(store: Store, count: int) -> list[list[int]]:
    """Token ids of some answers, each under a key of its own."""
    rng = random.Random(1)
    answers = [[rng.randrange(400) for _ in range(rng.randrange(30))] for _ in range(count)]
    for number, ids in enumerate(answers):
        store.put_shared(RUN, f"ids:{number}", {"ids": ids})
    return answers


def pairs_of(answers: list[list[int]]) -> list[KeyPair]:
    return [(1 + n % 4, f"ids:{n}", f"ids:{n // 2}") for n in range(len(answers))]


def job(store: Store, task: Task, key: str, **arguments: object) -> str:
    """Run a task for a job as a worker does; the key of its result."""
    store.put_job(RUN, key, JobSpec(task.name, "label", arguments).to_json())
    task(RUN, key, store.attempt(RUN, "jobs"))
    return key


def count(store: Store, pairs: list[KeyPair]) -> str:
    return job(store, tasks_of.frequencies_task, counts_key(pairs), pairs=pairs)


def merge(store: Store, keys: list[str]) -> str:
    return job(store, tasks_of.merge_frequencies_task, merged_key(keys), keys=keys)


def test_shards_give_what_one_count_of_everything_gives(store: Store) -> None:
    # given more pairs than are fetched at once, counted in three shards at the same time
    answers = put_answers(store, 300)
    pairs = pairs_of(answers)
    with ThreadPoolExecutor(3) as pool:
        keys = list(pool.map(lambda part: count(store, part), (pairs[:40], pairs[40:43], pairs[43:])))
    # when they are merged, whichever is first
    merged = merge(store, keys)
    # then all is there, and the order of shards and pairs makes no difference to the key either
    whole = count_shard((m, answers[int(v[4:])], answers[int(c[4:])]) for m, v, c in pairs)
    assert read_counts(store, RUN, merged) == whole
    assert merged_key(keys[::-1]) == merged
    assert counts_key(pairs[40:43]) == counts_key(pairs[40:43][::-1]) == keys[1]


def test_a_shard_that_was_not_counted_is_not_merged(store: Store) -> None:
    with pytest.raises(LookupError, match="counts:nothing"):
        merge(store, ["counts:nothing"])
