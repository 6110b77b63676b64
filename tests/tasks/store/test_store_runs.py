"""Runs on a real Valkey."""

from __future__ import annotations

import pytest

from tasks.records import Clusters, Endpoint, Fitness, Judge, Reflector, Run, Sampling, Target
from tasks.store.store import Store


def make_run(run_id: str) -> Run:
    return Run(
        id=run_id,
        seed=1,
        target=Target(
            model="embedded",
            engine="embedded",
            lifecycle="resident",
            url="",
            command="",
            args="",
            device="cpu",
            dtype="auto",
            ready_timeout_s=60.0,
            request_timeout_s=60.0,
            concurrency=4,
            system_prompt="Answer.",
            prompt_template="Context:\n{context}\n\nQuestion:\n{query}",
            sampling=Sampling(16, 0.0, 1.0, 42),
        ),
        judge=Judge("j", 0.01, True, 0.0, 1.0, 128, 1, 2),
        reflector=Reflector("r", 0.7, 1.0, 128, 1),
        endpoint=Endpoint("", "KEY", 10.0, 3, 100, 1000, 1.0, 0.5, 2.0, 0.0),
        objective=Fitness(0.4, 0.6, 50.0),
        clusters=Clusters("c", "embedded", 5, 2, 1, 8, "cpu", discovered=(4, 2)),
        evaluation_cache=True,
    )


def test_a_run_comes_back_as_it_went_in_newlines_and_all(store: Store) -> None:
    run = make_run("here")
    store.put_run(run)
    assert store.run("here") == run
    assert "\n\nQuestion:\n" in store.run("here").target.prompt_template
    with pytest.raises(KeyError, match="elsewhere"):
        store.run("elsewhere")
