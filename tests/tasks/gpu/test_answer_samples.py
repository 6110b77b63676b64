"""Several answers to a question: their seeds, their keys and their requests."""

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
    store: Store, monkeypatch: pytest.MonkeyPatch, samples: int, repeat: int = 0, delta: float = 0.5, shortest: int = 0
) -> Stage:
    monkeypatch.setattr(context, "examples", lambda run, name: EXAMPLES)
    candidate = Candidate(0, (delta,), repeat=repeat)
    sampling = dataclasses.replace(RUN.target.sampling, steered_min_new_tokens=shortest)
    run = dataclasses.replace(RUN, samples=samples, target=dataclasses.replace(RUN.target, sampling=sampling))
    return Stage(store, run, Plan("g0_pop", 0, (candidate,)), candidate, "pre", 1)


def batch_of(stage: Stage) -> PromptBatch:
    prompts = tuple((int(example.id),) for example in stage.examples())
    hashes = tuple(context.content_hash(list(prompt)) for prompt in prompts)
    return PromptBatch(tuple(example.id for example in stage.examples()), prompts, hashes, (0,))


def keys_of(stage: Stage) -> list[str]:
    return answer_keys(stage.run, {}, "c", stage.deltas(), batch_of(stage), stage.seeds(), "")


def test_each_question_is_asked_with_as_many_seeds_in_a_row(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = stage_of(store, monkeypatch, samples=2)
    assert [example.id for example in stage.examples()] == ["0", "0", "1", "1", "2", "2"]
    assert stage.seeds() == (1, 2, 1, 2, 1, 2)
    rids = {position: str(position) for position in range(6)}
    requests = requests_for(stage.run.target, "c", stage.deltas(), batch_of(stage), rids, seeds=stage.seeds())
    assert [(r.input_ids, r.seed) for r in requests[:3]] == [((0,), 1), ((0,), 2), ((1,), 1)]
    assert len(set(keys_of(stage))) == 6


def test_a_further_measurement_has_answers_of_its_own(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = (stage_of(store, monkeypatch, samples=2, repeat=repeat) for repeat in (0, 1))
    assert again.seeds() == (3, 4, 3, 4, 3, 4)
    assert not set(keys_of(first)) & set(keys_of(again))


def test_the_first_answer_has_the_key_that_it_has_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, several = (keys_of(stage_of(store, monkeypatch, samples=samples)) for samples in (1, 3))
    assert several[::3] == alone


def test_steered_answers_alone_have_a_shortest_length(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def sent(stage: Stage) -> object:
        [request] = requests_for(stage.run.target, "c", stage.deltas(), batch_of(stage), {0: "0"})
        return request_body(request, "0")["sampling_params"].get("min_new_tokens")

    steered, plain = (stage_of(store, monkeypatch, 1, delta=delta, shortest=14) for delta in (0.5, 0.0))
    assert (sent(steered), sent(plain)) == (14, None)
    # Another least length is another answer, where it is sent.
    before = (stage_of(store, monkeypatch, 1, delta=delta) for delta in (0.5, 0.0))
    assert [keys_of(a) == keys_of(b) for a, b in zip((steered, plain), before, strict=True)] == [False, True]
