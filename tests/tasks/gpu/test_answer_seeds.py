"""Seeds, keys and requests of answers."""

from __future__ import annotations

import dataclasses

import pytest
from simulated_run import RUN

from tasks.gpu.answer import PromptBatch, answer_keys
from tasks.plan import Candidate, Plan
from tasks.records import Example
from tasks.stage import Stage
from tasks.store.keys import content_hash
from tasks.store.store import Store

EXAMPLES = tuple(Example(str(n), "", f"Question {n}?", "") for n in range(3))


def stage_of(
    store: Store, monkeypatch: pytest.MonkeyPatch, repeat: int = 0, deltas: tuple[float, ...] = (0.5,), **sampling: bool
) -> Stage:
    monkeypatch.setattr(Stage, "examples", lambda stage: EXAMPLES)
    candidate = Candidate(0, deltas, repeat=repeat)
    target = dataclasses.replace(RUN.target, sampling=dataclasses.replace(RUN.target.sampling, **sampling))
    run = dataclasses.replace(RUN, target=target)
    return Stage(store, run, Plan("population", 0, (candidate,)), candidate, "pre", 1)


def batch_of(stage: Stage) -> PromptBatch:
    prompts = tuple((int(example.id),) for example in stage.examples())
    hashes = tuple(content_hash(list(prompt)) for prompt in prompts)
    return PromptBatch(tuple(example.id for example in stage.examples()), prompts, hashes, (0,))


def keys_of(stage: Stage) -> list[str]:
    return answer_keys(stage.sampling, True, {}, "c", stage.deltas(), batch_of(stage), "")


def test_a_further_measurement_has_answers_of_its_own(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = (stage_of(store, monkeypatch, repeat=repeat) for repeat in (0, 1))
    assert (first.sampling.seed, again.sampling.seed) == (1, 2)
    assert not set(keys_of(first)) & set(keys_of(again))


def test_where_the_end_of_a_turn_is_held_back_its_answers_are_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keys(deltas: tuple[float, ...], held_back: bool) -> list[str]:
        return keys_of(stage_of(store, monkeypatch, deltas=deltas, end_after_sentence=held_back))

    same = {deltas: keys(deltas, True) == keys(deltas, False) for deltas in ((0.5, 1.0), (0.0, 1.0), (0.0, 0.0))}
    assert same == {(0.5, 1.0): False, (0.0, 1.0): True, (0.0, 0.0): True}
