"""A judge's reply that cannot be used is asked for again with another seed, and is never a wrong answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tasks.openai import endpoint as errors
from tasks.openai.calls import NEEDED_TRIES, ReplyCounter, StoredReplyCounter
from tasks.openai.judge import ask_judge, verdict_record
from tasks.records import Judge
from tasks.store.store import Store

SETTINGS = Judge("some-model", 0.01, True, 0.0, 1.0, 512, 42, concurrency=1)
ROW = ("Did sales grow?", "Yes, they grew.", "They did grow, yes.")
UNUSABLE = ["invalid_json", "truncated", "refusal"]


@pytest.mark.parametrize("fault", UNUSABLE)
def test_an_unusable_verdict_is_asked_for_again(call_as: Callable[..., Any], service: Any, fault: str) -> None:
    service.fail(f"verdict:{fault}:{NEEDED_TRIES - 1}")
    verdict = verdict_record(call_as().client, SETTINGS, f"judge-{fault}", ROW, ReplyCounter())
    assert verdict["is_correct"] is True
    assert [len(service.calls(f"judge-{fault}{suffix}")) for suffix in ("", "-2", "-3")] == [1, 1, 1]


@pytest.mark.parametrize("fault", UNUSABLE)
def test_a_retry_uses_seeds_that_were_not_used_before(
    call_as: Callable[..., Any], service: Any, store: Store, fault: str
) -> None:
    """Given a verdict whose tries were all unusable, the task that is retried starts with the next seed."""
    service.fail(f"verdict:{fault}:{NEEDED_TRIES}")
    client, call_id = call_as().client, f"retried-{fault}"
    with pytest.raises(errors.UnusableReplyError):
        verdict_record(client, SETTINGS, call_id, ROW, StoredReplyCounter(store, "run", call_id))

    again = verdict_record(client, SETTINGS, call_id, ROW, StoredReplyCounter(store, "run", call_id))
    assert again["is_correct"] is True
    assert [len(service.calls(f"{call_id}{suffix}")) for suffix in ("", "-2", "-3", "-4")] == [1, 1, 1, 1]


class Client:
    """A client whose replies have numbers that are not finite, but for the last seed."""

    def __init__(self) -> None:
        self.seeds: list[int] = []

    def ask(self, system: str, user: str, *, seed: int, **_: Any) -> Any:
        self.seeds.append(seed)
        confidence = 1.0 if seed == SETTINGS.seed + 2 else None
        data = {"reasoning": "r", "category": "text", "confidence": confidence, "is_correct": True}
        numbers = dict.fromkeys(("normalized_gt", "normalized_pred", "relative_error_pct"))
        return type("Reply", (), {"data": {**data, **numbers}, "provider": "some-model"})


def test_a_reply_that_the_judge_cannot_read_has_another_seed_the_next_time() -> None:
    client, counter = Client(), ReplyCounter()
    verdict = verdict_record(client, SETTINGS, "call", ROW, counter)  # type: ignore[arg-type]
    assert (verdict["is_correct"], verdict["by"]) == (True, "some-model")
    assert client.seeds == [42, 43, 44]
    ask = ask_judge(client, SETTINGS, "call", lambda _: None, ReplyCounter(5))  # type: ignore[arg-type]
    ask("system", "user", "verdict", {})
    assert client.seeds[-1] == 47


def test_a_judge_that_cannot_be_reached_is_not_asked_again(call_as: Callable[..., Any], service: Any) -> None:
    service.fail("verdict:500:*")
    counter = ReplyCounter()
    with pytest.raises(errors.UnavailableError):
        verdict_record(call_as(max_tries=1).client, SETTINGS, "unreachable", ROW, counter)
    assert counter.count == 0 and len(service.calls("unreachable")) == 1
