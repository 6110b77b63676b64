"""The reflector's rules: what is a valid proposal, when it is asked again, and what is logged."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.openai import endpoint as errors
from tasks.openai.calls import CallRecord, Invalid, ask_with_retry
from tasks.openai.client import Reply
from tasks.openai.endpoint import Usage
from tasks.openai.fitting import Response
from tasks.openai.merge import Merged, Parent, merge
from tasks.openai.mutation import Proposal, check_proposal, mutation_messages

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


A, B = Parent("from A", 0.25), Parent("from B", 0.75)


def test_a_merge_is_taken_asked_for_again_and_given_up():
    log: list[CallRecord] = []
    assert merge(scripted({"scratchpad": "both"})[0], A, B, log.append) == Merged("both")
    unusable = errors.UnusableReplyError("no JSON")
    assert merge(scripted(unusable, {"scratchpad": "both"})[0], A, B, log.append) == Merged("both")
    assert merge(scripted(unusable, unusable, GOOD)[0], A, B, log.append) == Merged("from A", fallback="no JSON")
    assert [record.attempt for record in log] == [1, 1, 2, 1, 2]
    assert {record.kind for record in log} == {"merge"}
