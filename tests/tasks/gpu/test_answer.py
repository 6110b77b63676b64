"""Answers of a stage: which are whole, what is asked to know it, and which answers two candidates share."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripted_server import ScriptedHost, reply_of, server
from simulated_run import RUN

from tasks.gpu.answer import answer_stage
from tasks.gpu.cluster import pack_labels
from tasks.plan import Candidate, Plan
from tasks.records import Example, Sampling
from tasks.stage import Stage
from tasks.store.store import Store

CLUSTERING, ARMS = "c" * 32, "a" * 32
END = 2  # of the embedded model's turns
STOP = {"type": "stop", "matched": END}
REPLIES = (
    reply_of([5, END], STOP) | {"text": "It is 4 %."},
    reply_of([6, END], STOP) | {"text": "It grew to 2."},
    reply_of([7, END], STOP) | {"text": "We need to calculate"},
    reply_of([8] * 30, {"type": "length", "length": 30}) | {"text": "so " * 30},
    reply_of([END], STOP) | {"text": ""},
)
EXAMPLES = tuple(Example(str(n), "", f"Question {n}?", "") for n in range(len(REPLIES)))


@pytest.fixture(autouse=True)
def clusterings(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run's own clustering and one of an arm."""
    monkeypatch.setattr(Stage, "examples", lambda stage: EXAMPLES)
    described = json.dumps([{"id": n, "description": str(n)} for n in range(2)])
    labels = pack_labels(np.arange(10, dtype=np.uint8) % 2)
    for clustering in (CLUSTERING, ARMS):
        store.clusterings.put(RUN.id, clustering, labels, described, ends=labels)
    store.put_metadata(RUN.id, "clustering", CLUSTERING)


def stage_of(store: Store, candidate: Candidate, *, whole: bool = True, **sampling: Any) -> Stage:
    values: dict[str, Any] = {"request_timeout_s": 10, "prompt_template": "{context}{query}"}
    target = dataclasses.replace(RUN.target, sampling=Sampling(30, 0, 1, 1, **sampling), **values)
    run = dataclasses.replace(RUN, target=target, whole=whole)
    store.put_run(run)
    return Stage(store, run, Plan("population", 0, (candidate,)), candidate, "pre", 1)


def answers_of(url: str, folder: Path, stage: Stage) -> list[dict[str, Any]]:
    host: Any = ScriptedHost(url, folder=folder)
    found: list[dict[str, Any]] = answer_stage(stage, host)["answers"]
    return found


def test_where_the_text_of_a_steered_answer_does_not_tell_the_model_without_deltas_does(
    store: Store, tmp_path: Path
) -> None:
    stored: list[int] = []

    def script(number: int, asked: dict[str, Any]) -> tuple[int, Any]:
        if number <= len(REPLIES):
            return 200, REPLIES[number - 1]
        stored.append(len(store.redis.keys("whetstone:answer:*")))  # type: ignore[arg-type]
        return 200, reply_of([END if number == 6 else 9], {"type": "length", "length": 1})

    # When a steered candidate answers: with a sentence, a number, a cut one, a loop to the cap, and nothing
    with server(script) as (url, seen):
        answers = answers_of(url, tmp_path, stage_of(store, Candidate(0, (0.0, 0.5))))
    # Then the model would also end the second there and not the third, and the loop is named
    assert [answer["whole"] for answer in answers] == [True, True, False, False, False]
    assert [answer["loop"] for answer in answers] == [False, False, False, True, False]
    assert [answer["tokens"] for answer in answers] == [1, 1, 1, 30, 0]
    assert store.usage(RUN.id) == {"target": 33}
    found = store.shared(RUN.id, [answer["key"] for answer in answers])
    assert [found[a["key"]]["ids"] for a in answers[:3]] == [[5], [6], [7]]
    # And only these two were asked about, by their own tokens and without steering, when the rest was stored
    assert len(seen) == 7 and stored[0] == 3
    assert [body["input_ids"] for body in seen[5:]] == [[*seen[1]["input_ids"], 6], [*seen[2]["input_ids"], 7]]
    assert all("custom_logit_processor" in body for body in seen[:5])
    for body in seen[5:]:
        assert "custom_logit_processor" not in body and "custom_params" not in body["sampling_params"]
        assert (body["sampling_params"]["max_new_tokens"], body["sampling_params"]["temperature"]) == (1, 0.0)
        assert body["sampling_params"]["stop_token_ids"] == seen[0]["sampling_params"]["stop_token_ids"]


@pytest.mark.parametrize(
    ("deltas", "whole", "says", "expected"),
    [
        ((), True, False, [True, True, True, False, False]),
        ((0.0, 0.0), True, False, [True, True, True, False, False]),
        ((0.0, 0.5), False, False, [True] * 5),
        # a server that says whether the model would end there too
        ((0.0, 0.5), True, True, [True, True, False, False, False]),
    ],
)
def test_nothing_is_asked_where_no_delta_acts_or_every_answer_counts_as_whole(
    deltas: tuple[float, ...], whole: bool, says: bool, expected: list[bool], store: Store, tmp_path: Path
) -> None:
    def script(number: int, asked: dict[str, Any]) -> tuple[int, Any]:
        reply = REPLIES[number - 1]
        return 200, reply | {"meta_info": reply["meta_info"] | ({"ends_unsteered": number == 2} if says else {})}

    with server(script) as (url, seen):
        answers = answers_of(url, tmp_path, stage_of(store, Candidate(0, deltas), whole=whole))
    assert [answer["whole"] for answer in answers] == expected
    assert len(seen) == len(REPLIES)


def test_candidates_that_differ_in_what_acts_have_answers_of_their_own(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Candidate(0, (0.0, 0.5))
    changed = dataclasses.replace
    stages = {
        "own": (own, {}),
        "another clustering": (changed(own, clustering=ARMS), {}),
        "a cap": (changed(own, max_tokens=8), {}),
        "a cap beyond the run's": (changed(own, max_tokens=99), {}),
        "measured again": (changed(own, repeat=1), {}),
        "an end that no delta raises": (own, {"end_after_sentence": True}),
        "an end anywhere": (changed(own, deltas=(0.5, 0.0)), {}),
        "an end after sentences": (changed(own, deltas=(0.5, 0.0)), {"end_after_sentence": True}),
    }
    keys: dict[str, str] = {}
    with server(lambda number, asked: (200, REPLIES[0])) as (url, seen):
        for name, (candidate, sampling) in stages.items():
            keys[name] = answers_of(url, tmp_path, stage_of(store, candidate, **sampling))[0]["key"]
        # Without a delta that acts nothing is steered, and another server answers anew
        plain, zeros = (stage_of(store, changed(own, deltas=deltas)) for deltas in ((), (0.0, 0.0)))
        before, unsteered = len(seen), answers_of(url, tmp_path, plain)
        assert answers_of(url, tmp_path, zeros) == unsteered and len(seen) == before + len(EXAMPLES)
        monkeypatch.setattr(ScriptedHost, "identity", lambda *_: {"version": "2"})
        assert answers_of(url, tmp_path, plain)[0]["key"] != unsteered[0]["key"]
        del seen[before:]
    # Then these two share those of the first, and no other does
    same = {name for name, key in keys.items() if key == keys["own"]}
    assert same == {"own", "a cap beyond the run's", "an end that no delta raises"}
    assert len(set(keys.values())) == len(keys) - 2 and len(seen) == len(EXAMPLES) * (len(keys) - 2)
    sent = [body["sampling_params"] for body in seen[:: len(EXAMPLES)]]
    assert [one["custom_params"]["clustering"] for one in sent[:3]] == [CLUSTERING, ARMS, CLUSTERING]
    assert [one["max_new_tokens"] for one in sent[:3]] == [30, 30, 8]
