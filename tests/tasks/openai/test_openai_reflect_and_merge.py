"""The reflector's rules: what is a valid proposal, when it is asked again, and what is logged."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.models import Reflector
from tasks.openai import errors
from tasks.openai.calls import CallRecord, Invalid, ask_with_retry, make_ask
from tasks.openai.client import Reply
from tasks.openai.fitting import Response
from tasks.openai.merge import SCHEMA as MERGE_SCHEMA
from tasks.openai.merge import Merged, Parent, merge
from tasks.openai.mutation import SCHEMA, Proposal, check_proposal, mutation_messages
from tasks.openai.provider import Usage

REFLECTOR = Reflector("any", temperature=0.2, top_p=0.9, max_completion_tokens=900, seed=7)
DESCRIPTIONS = [{"id": str(i), "description": f"cluster {i}", "examples": ["the"], "count": 3} for i in range(3)]
DELTAS = {"0": 0.0, "1": 0.5, "2": -1.0}
MESSAGES = mutation_messages(DESCRIPTIONS, DELTAS, "", "0", [Response("q1", True, "as in the gold", "the 4 %", 40)])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"delta": float("nan"), "scratchpad": ""}, "finite"),
        ({"delta": float("inf"), "scratchpad": ""}, "finite"),
        ({"delta": 10**400, "scratchpad": ""}, "finite"),
        ({"delta": -1000.5, "scratchpad": ""}, "finite"),
        ({"delta": 0.5, "scratchpad": ""}, "current value"),
        ({"delta": 0.5 + 1e-10, "scratchpad": ""}, "current value"),
    ],
)
def test_invalid_proposals(data, reason):
    result = check_proposal(data, current=0.5)
    assert isinstance(result, Invalid) and reason in result.reason


@pytest.mark.parametrize("delta", [0.5 + 1e-8, -1000, 1000.0, 0, -0.25])
def test_valid_proposals(delta):
    result = check_proposal({"delta": delta, "scratchpad": "a\r\nb\ud800"}, current=0.5)
    assert result == Proposal(float(delta), "a\nb\ufffd")
    assert isinstance(result, Proposal) and type(result.delta) is float


def scripted(*replies: object):
    """An `Ask` that says these things in turn, and the calls it got."""
    calls: list[tuple[str, str, int]] = []

    def ask(system: str, user: str, attempt: int) -> Reply:
        calls.append((system, user, attempt))
        reply = replies[len(calls) - 1]
        if isinstance(reply, Exception):
            raise reply
        return Reply(reply, str(reply), Usage(1), "f-1", "m")

    return ask, calls


def propose(ask: Any, log: list[CallRecord]) -> Proposal | Invalid:
    return ask_with_retry(ask, "mutation", MESSAGES, lambda data: check_proposal(data, 0.0), log.append)


GOOD = {"delta": 2.0, "scratchpad": "raised"}
UNCHANGED = {"delta": 0.0, "scratchpad": "kept"}


@pytest.mark.parametrize("first", [UNCHANGED, errors.UnusableReplyError("no JSON", "{")])
def test_an_invalid_proposal_is_asked_for_once_more(first):
    ask, calls = scripted(first, GOOD)
    log: list[CallRecord] = []
    assert propose(ask, log) == Proposal(2.0, "raised")
    assert [attempt for *_, attempt in calls] == [1, 2]
    assert log[0].outcome.startswith("invalid: ") and log[1].outcome == "used"
    assert (log[0].system, log[0].user) == MESSAGES


def test_the_second_invalid_proposal_skips_the_mutation():
    ask, calls = scripted(errors.UnusableReplyError("no JSON", "{"), UNCHANGED, GOOD)
    log: list[CallRecord] = []
    assert propose(ask, log) == Invalid("delta is the current value, 0.0")
    assert len(calls) == len(log) == 2


def test_a_call_without_a_reply_is_raised_and_logged():
    ask, calls = scripted(errors.UnavailableError("why"))
    log: list[CallRecord] = []
    with pytest.raises(errors.UnavailableError):
        propose(ask, log)
    assert len(calls) == 1
    assert [record.outcome for record in log] == ["error: UnavailableError: why"]


A, B = Parent("from A", 0.25), Parent("from B", 0.75)


def test_a_merge_is_taken_asked_for_again_and_given_up():
    log: list[CallRecord] = []
    assert merge(scripted({"scratchpad": "both"})[0], A, B, log.append) == Merged("both")
    unusable = errors.UnusableReplyError("no JSON")
    assert merge(scripted(unusable, {"scratchpad": "both"})[0], A, B, log.append) == Merged("both")
    assert merge(scripted(unusable, unusable, GOOD)[0], A, B, log.append) == Merged("from A", fallback="no JSON")
    assert [record.attempt for record in log] == [1, 1, 2, 1, 2]
    assert {record.kind for record in log} == {"merge"}


def test_over_http_the_second_attempt_is_a_call_of_its_own(call_as, service):
    service.fail("mutation:unchanged:1")
    ask = make_ask(call_as().client, REFLECTOR, "mutation", SCHEMA, "gen-0-child-1")
    log: list[CallRecord] = []
    proposal = propose(ask, log)
    assert isinstance(proposal, Proposal) and proposal.delta != 0.0
    assert [record.outcome for record in log] == ["invalid: delta is the current value, 0.0", "used"]
    assert len(service.calls("gen-0-child-1")) == len(service.calls("gen-0-child-1-2")) == 1


def test_over_http_a_merge_falls_back_to_the_first_parent(call_as, service):
    service.fail("merge:invalid_json:2")
    ask = make_ask(call_as().client, REFLECTOR, "merge", MERGE_SCHEMA, "merge-1")
    merged = merge(ask, A, B, lambda record: None)
    assert merged.scratchpad == "from A" and "not JSON" in merged.fallback
    again = merge(ask, A, B, lambda record: None)
    assert again == Merged("from B\nfrom A"), "the fitter parent's lines come first"
