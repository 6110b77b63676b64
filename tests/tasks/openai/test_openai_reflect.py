"""The reflector: its prompt fits its limits, which replies can be used, and when it is asked again."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator.settings.kconfig import load_settings
from orchestrator.settings.run import make_run
from tasks.common.text import SCRATCHPAD_CHARACTERS, estimate_tokens, limit_scratchpad
from tasks.common.validation import InvalidData, parse_json
from tasks.openai.calls import prompt_limit
from tasks.openai.endpoint import ContextExceededError
from tasks.openai.merge import merge_stage
from tasks.openai.reflect import (
    Mutation,
    Response,
    fit_responses,
    mutation_messages,
    read_responses,
    reflect_stage,
)
from tasks.plan import Candidate, Merge, Plan
from tasks.records import Example, Run
from tasks.stage import Stage
from tasks.store.keys import CLUSTERING
from tasks.store.store import Store
from tasks.task import current_store

ROOT = Path(__file__).parents[3]
DESCRIPTIONS = [{"id": i, "description": "a cluster", "examples": ["the"], "count": 3} for i in range(3)]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(ROOT)
    limits = {"OPENAI_CONTEXT_TOKENS": "0", "OPENAI_TOKENS_PER_MINUTE": "30000", "TARGET_MAX_NEW_TOKENS": "512"}
    return make_run(load_settings(Path("configs/embedded.config"), limits), "a-run")


@pytest.fixture(autouse=True)
def at_the_store(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("WHETSTONE_REDIS_URL", valkey_url)
    current_store.cache_clear()
    yield
    current_store.cache_clear()


def response(number: int, length: int, is_correct: bool = True) -> Response:
    text = "".join(f"{number}:{i} " for i in range(length))[:length]
    return Response(f"q{number}", is_correct, "because", text, length // 4)


def tokens_of(responses: Sequence[Response]) -> int:
    return sum(map(estimate_tokens, mutation_messages(DESCRIPTIONS, {"0": 0.0, "1": 0.0}, "", "1", responses)))


def test_the_longest_are_cut_first_and_the_wrong_before_the_correct() -> None:
    """Given 20 answers of which three are long, two of these wrong, only as much is cut as the limit asks for."""
    responses = [response(i, 200) for i in range(17)] + [response(i, 8000, i == 17) for i in (17, 18, 19)]
    whole = tokens_of(responses)
    fitted, cut = fit_responses(responses, whole - 1000, tokens_of)
    assert tokens_of(fitted) <= whole - 1000 < tokens_of(fitted) + 60
    assert cut == 2 and fitted[:18] == responses[:18], "the long correct answer is whole while wrong ones can be cut"
    fitted, cut = fit_responses(responses, whole - 4000, tokens_of)
    assert tokens_of(fitted) <= whole - 4000
    assert cut == 3 and fitted[:17] == responses[:17]
    assert len(fitted[17].text) > 1.9 * len(fitted[18].text) > 200
    assert [one.tokens for one in fitted] == [one.tokens for one in responses], (
        "the length that is reported is the full one"
    )


def reflecting(store: Store, run: Run, responses: Sequence[Response]) -> Stage:
    """A reflect stage of a child whose answers are these responses."""
    plan = Plan("offspring", 0, (Candidate(0, (0.0, 0.0, 0.0), target=1),))
    store.put_run(run)
    store.clusterings.put(run.id, "c", b"", json.dumps(DESCRIPTIONS))
    store.put_metadata(run.id, CLUSTERING, "c")
    store.put_examples(run.id, {"training": [Example(r.example_id, "", "?", "") for r in responses], "validation": []})
    store.put_plan(run.id, plan)
    answers = [{"key": f"answer:{r.example_id}", "tokens": r.tokens, "whole": True} for r in responses]
    verdicts = [{"key": f"verdict:{r.example_id}", "is_correct": r.is_correct} for r in responses]
    for r in responses:
        store.put_shared(run.id, f"answer:{r.example_id}", {"text": r.text})
        store.put_shared(run.id, f"verdict:{r.example_id}", {"reasoning": r.explanation})
    store.put_stage(run.id, plan.name, "0:pre:answer", {"answers": answers}, 1)
    store.put_stage(run.id, plan.name, "0:pre:judge", {"verdicts": verdicts}, 1)
    return Stage(store, run, plan, plan.candidates[0], "mut", 1)


def test_the_prompt_of_a_mutation_is_fitted(store: Store, run: Run) -> None:
    # Given a child with 100 answers, more than the endpoint takes in a minute
    responses = [response(i, 2800, is_correct=i % 2 == 0) for i in range(100)]
    # When the messages of its mutation are written
    stage = reflecting(store, run, responses)

    def messages(responses: Sequence[Response]) -> tuple[str, str]:
        return mutation_messages(DESCRIPTIONS, {"0": 0.0, "1": 0.0}, "", "1", responses)

    limit = prompt_limit(run)
    fitting, cut = fit_responses(read_responses(stage), limit, lambda r: sum(map(estimate_tokens, messages(r))))
    # Then they fit, and every answer is in them
    assert limit is not None and sum(map(estimate_tokens, messages(fitting))) <= limit
    assert (cut, messages(fitting)[1].count('"example_id"')) == (100, 100)


def test_an_answer_that_is_cut_is_not_correct_to_the_reflector(store: Store, run: Run) -> None:
    # Given two right answers, of which the second is cut
    stage = reflecting(store, run, [response(0, 40), response(1, 40)])
    record = stage.need("answer", "pre")
    record["answers"][1]["whole"] = False
    store.redis.hset(f"whetstone:run:{run.id}:plan:g0_child", "0:pre:answer", json.dumps(record))
    # Then the reflector reads so
    found = read_responses(stage)
    assert [one.is_correct for one in found] == [True, False]
    assert found[0].explanation == "because" and found[1].explanation.startswith("cut: ")


def test_a_prompt_that_is_too_long_even_when_cut_is_not_sent(store: Store, run: Run) -> None:
    # Given a context in which not even the shortest answers fit, and no endpoint that could be called
    nowhere = dataclasses.replace(run.endpoint, base_url="http://127.0.0.1:9/v1", api_key_env="NO_SUCH_KEY")
    small = dataclasses.replace(run, endpoint=nowhere, reflector_context_tokens=4_000)
    stage = reflecting(store, small, [response(i, 2800) for i in range(100)])
    # When the mutation is asked for, then it is skipped with the reason, and nothing is sent
    record = reflect_stage(stage)
    assert record["delta"] is None and record["answers_cut"] == 100
    assert "and 1,952 are allowed; nothing was sent" in record["reason"]
    # And the prompt is on record once, with the reason
    [(name, text)] = store.prompts(run.id).items()
    assert name.endswith(".txt") and text.startswith("# mutation, attempt 1: skipped: the prompt has about ")
    # And a merge takes the first parent's scratchpad
    parents = Merge("what the first has learnt", 0.5, "what the second has learnt", 0.25)
    tiny = dataclasses.replace(small, reflector_context_tokens=2_100)
    merging = dataclasses.replace(stage, run=tiny, candidate=Candidate(0, (0.0, 0.0, 0.0), merge=parents))
    merged = merge_stage(merging)
    assert merged["scratchpad"] == parents.scratchpad_a and "nothing was sent" in merged["fallback"]
    current_store.cache_clear()


@pytest.mark.parametrize("limit", [30_000, 0])
def test_a_prompt_that_the_endpoint_counts_as_too_long_is_cut_further(
    limit: int, store: Store, run: Run, service: Any, call_as: Any
) -> None:
    # Given an endpoint that refuses two prompts as longer than its model's context, with and without a limit of ours
    service.fail("mutation:context:2")
    endpoint = dataclasses.replace(
        run.endpoint, base_url=service.url, api_key_env="KEY_OF_THIS_TEST", tokens_per_minute=0
    )
    changed = dataclasses.replace(run, id=f"counted{limit}", endpoint=endpoint, reflector_context_tokens=limit or None)
    stage = reflecting(store, changed, [response(i, 400, is_correct=i % 2 == 0) for i in range(20)])
    # When a mutation is asked for, then the third prompt is answered
    record = reflect_stage(stage)
    assert record["delta"] is not None and record["answers_cut"] > 0
    # And each prompt is shorter than the one before, and a call of its own
    logged = store.prompts(changed.id)
    sizes = [estimate_tokens(logged[name]) for name in sorted(logged)]
    assert len(sizes) == 3 and sizes[1] < 0.85 * sizes[0] and sizes[2] < 0.85 * sizes[1], list(logged)
    names = [f"{changed.id}-{stage.node}-mutation{suffix}" for suffix in ("", "-shorter1", "-shorter2")]
    assert [len(service.calls(name)) for name in names] == [1, 1, 1]
    # And one that is refused however short it is ends the stage
    service.fail("mutation:context:*")
    with pytest.raises(ContextExceededError, match="too long for the model"):
        reflect_stage(stage)


def test_a_scratchpad_is_kept_within_the_limit_that_its_prompt_states() -> None:
    lines = [f"line {i}: what was learnt" for i in range(1000)]
    kept = limit_scratchpad("\n".join(lines))
    assert len(kept) <= SCRATCHPAD_CHARACTERS and kept.split("\n") == lines[-len(kept.split("\n")) :]
    assert len(limit_scratchpad("x" * 9000)) == SCRATCHPAD_CHARACTERS and limit_scratchpad("short\n") == "short\n"
    assert limit_scratchpad("y" * 100 + "\n" + "x" * SCRATCHPAD_CHARACTERS) == "x" * SCRATCHPAD_CHARACTERS
    assert len(Mutation(delta=1.0, scratchpad="x\n" * 9000).scratchpad) <= SCRATCHPAD_CHARACTERS
    system, _ = mutation_messages(DESCRIPTIONS, {"1": 0.0}, "", "1", [])
    assert f"at most {SCRATCHPAD_CHARACTERS} characters" in system


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ('{"delta": NaN, "scratchpad": ""}', "finite"),
        ('{"delta": 1e999, "scratchpad": ""}', "finite"),
        ('{"delta": 1' + "0" * 400 + ', "scratchpad": ""}', "finite"),
        ('{"delta": -1000.5, "scratchpad": ""}', "within"),
        ('{"delta": "1", "scratchpad": ""}', "number"),
        ('{"delta": 1}', "missing"),
        ('{"delta": 1, "scratchpad": "", "more": 1}', "not expected"),
    ],
)
def test_a_reply_of_another_form_is_no_proposal(reply: str, reason: str) -> None:
    with pytest.raises(InvalidData, match=reason):
        parse_json(Mutation, reply)


@pytest.mark.parametrize("proposed", [0.5, 0.5 + 1e-10])
def test_the_current_value_is_no_proposal(proposed: float) -> None:
    assert "current value" in Mutation(delta=proposed, scratchpad="").fault(0.5)
    assert Mutation(delta=proposed, scratchpad="").fault(0.6) == ""


@pytest.fixture
def asking(store: Store, run: Run, service: Any, call_as: Any) -> Stage:
    """A reflect stage whose reflector is the service."""
    endpoint = dataclasses.replace(run.endpoint, base_url=service.url, api_key_env="KEY_OF_THIS_TEST")
    return reflecting(store, dataclasses.replace(run, endpoint=endpoint), [response(0, 40), response(1, 40)])


@pytest.mark.parametrize("fault", ["unchanged", "invalid_json"])
def test_an_unusable_proposal_is_asked_for_once_more(asking: Stage, store: Store, service: Any, fault: str) -> None:
    service.fail(f"mutation:{fault}:1")
    record = reflect_stage(asking)
    assert record["delta"] is not None and record["scratchpad"].startswith("cluster 1: ")
    first, second = store.prompts(asking.run.id).values()
    assert first.startswith("# mutation, attempt 1: invalid: ") and second.startswith("# mutation, attempt 2: used\n")
    # And the second unusable one skips the mutation, with its reason
    service.fail(f"mutation:{fault}:2")
    skipped = reflect_stage(asking)
    assert (
        skipped["delta"] is None and ("the current value" if fault == "unchanged" else "not JSON") in skipped["reason"]
    )


def test_a_merge_is_taken_asked_for_again_and_given_up(asking: Stage, service: Any) -> None:
    parents = Merge("what the first has learnt", 0.25, "what the second has learnt", 0.75)
    merging = dataclasses.replace(asking, candidate=Candidate(0, (0.0, 0.0, 0.0), merge=parents))
    both = {"scratchpad": "what the second has learnt\nwhat the first has learnt", "fallback": ""}
    assert merge_stage(merging) == both
    service.fail("merge:invalid_json:1")
    assert merge_stage(merging) == both
    service.fail("merge:invalid_json:2")
    given_up = merge_stage(merging)
    assert given_up["scratchpad"] == parents.scratchpad_a and "not JSON" in given_up["fallback"]
