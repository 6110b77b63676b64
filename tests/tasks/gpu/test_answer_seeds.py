"""Seeds, keys and requests of answers."""

from __future__ import annotations

import dataclasses

import pytest
from simulated_run import RUN

from tasks import context
from tasks.gpu.answer import PromptBatch, answer_keys, requests_for
from tasks.gpu.target import request_body
from tasks.models import Example
from tasks.plan import Candidate, Plan
from tasks.stage import Stage
from tasks.store.store import Store

EXAMPLES = tuple(Example(str(n), "", f"Question {n}?", "") for n in range(3))


def stage_of(
    store: Store, monkeypatch: pytest.MonkeyPatch, repeat: int = 0, delta: float = 0.5, shortest: int = 0
) -> Stage:
    monkeypatch.setattr(context, "examples", lambda run, name: EXAMPLES)
    candidate = Candidate(0, (delta,), repeat=repeat)
    sampling = dataclasses.replace(RUN.target.sampling, steered_min_new_tokens=shortest)
    run = dataclasses.replace(RUN, target=dataclasses.replace(RUN.target, sampling=sampling))
    return Stage(store, run, Plan("g0_pop", 0, (candidate,)), candidate, "pre", 1)


def batch_of(stage: Stage) -> PromptBatch:
    prompts = tuple((int(example.id),) for example in stage.examples())
    hashes = tuple(context.content_hash(list(prompt)) for prompt in prompts)
    return PromptBatch(tuple(example.id for example in stage.examples()), prompts, hashes, (0,))


def keys_of(stage: Stage) -> list[str]:
    return answer_keys(stage.run, {}, "c", stage.deltas(), batch_of(stage), stage.seeds(), "")


def test_a_further_measurement_has_answers_of_its_own(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = (stage_of(store, monkeypatch, repeat=repeat) for repeat in (0, 1))
    assert again.seeds() == (2, 2, 2)
    assert not set(keys_of(first)) & set(keys_of(again))


def test_steered_answers_alone_have_a_shortest_length(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def sent(stage: Stage) -> object:
        [request] = requests_for(stage.run.target, "c", stage.deltas(), batch_of(stage), {0: "0"})
        return request_body(request, "0")["sampling_params"].get("min_new_tokens")

    steered, plain = (stage_of(store, monkeypatch, delta=delta, shortest=14) for delta in (0.5, 0.0))
    assert (sent(steered), sent(plain)) == (14, None)
    # Another least length is another answer, where it is sent.
    before = (stage_of(store, monkeypatch, delta=delta) for delta in (0.5, 0.0))
    assert [keys_of(a) == keys_of(b) for a, b in zip((steered, plain), before, strict=True)] == [False, True]
