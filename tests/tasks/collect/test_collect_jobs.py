"""A verbose answer that does not fit the reflector's prompt is not sent, and its pair counts for nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tasks.collect.collection import Collection, SampleJob, compress, judge_sample
from tasks.records import Endpoint, Example, Judge, Reflector, Sampling, Target
from tasks.store.store import Store
from tasks.task import Job, current_store

NOWHERE = Endpoint("http://127.0.0.1:9/v1", "NO_SUCH_KEY", 1, 1, 0, 0, 0, 0, 0, 0)
COLLECTION = Collection(
    samples=1,
    target=Target("m", "sglang", "resident", "", "", "", "cpu", "auto", 1, 5, 1, "s", "{context}{query}",
                  Sampling(8, 0.0, 1.0, 5)),
    target_retries=0,
    reflector=Reflector("r", 0, 1, 1_000, 1),
    compress_template="{query}\n{prev_answer}",
    reflector_endpoint=NOWHERE,
    judge=Judge("j", 0.01, True, 0, 1, 16, 1, 1),
    judge_endpoint=NOWHERE,
    context_tokens=4_000,
)  # fmt: skip
EXAMPLE = Example("q", "the pages", "Why?", "Because.")
LONG = "And so on. " * 2_000


def job_of(store: Store, collection: Collection, text: str) -> SampleJob:
    key = f"sample:{len(text)}"
    store.put_shared("run", key, {"text": text})
    return SampleJob(Job(store, "run", "compression:a", {}), collection, EXAMPLE, 0, (key,))


@pytest.fixture(autouse=True)
def at_the_store(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("WHETSTONE_REDIS_URL", valkey_url)
    current_store.cache_clear()
    yield
    current_store.cache_clear()


def test_a_prompt_that_is_too_long_is_skipped_with_its_reason(store: Store) -> None:
    # Given an answer that the reflector's context cannot hold, then there is no call and no text
    skipped = compress(job_of(store, COLLECTION, LONG))
    assert (skipped["text"], skipped["by"]) == ("", "")
    assert skipped["skipped"].startswith("the prompt has about 5,") and skipped["skipped"].endswith("3,000 are allowed")
    # And the judge finds the empty answer wrong without a call
    verdict = judge_sample(job_of(store, COLLECTION, skipped["text"]))
    assert (verdict["is_correct"], verdict["by"]) == (False, "")
