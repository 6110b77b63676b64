"""A critique by an endpoint is kept as it came, whether it can be used or not; a failed call is a failure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from guided_job import ENDPOINT, guided, job_in

from tasks.guide.choose import SelectionRule, judge
from tasks.guide.jobs import GuideContext, ask_job
from tasks.guide.prompts import CRITIC_PLACES, Template, critic_messages
from tasks.guide.replies import Critique, UnusableReply, parse_critique
from tasks.guide.ticket import Ticket, read_candidate
from tasks.guide.work import ask_endpoint
from tasks.openai.endpoint import RULES
from tasks.store.store import Store
from tasks.task import Job, current_store

TEMPLATE = Template.read(Path(__file__).parents[3] / "configs" / "guide" / "critic.txt", CRITIC_PLACES)
TICKET = Ticket("t", "wiring", "fail", {"image_1": "The wire is black."})
ANSWER = read_candidate(0, 0, 1, "Verdict: pass\nReason: the wire is tied\nConfidence: 0.9", 9, "stop")
MESSAGES = critic_messages(
    TEMPLATE, "Whether wires are right.", {"G0": "Look at the wire."},
    judge(TICKET, (ANSWER,), SelectionRule("confidence", ())), ANSWER,
    summary_max_chars=200, critique_max_chars=400,
)  # fmt: skip


@pytest.fixture(autouse=True)
def at_the_store(valkey_url: str, service: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("WHETSTONE_REDIS_URL", valkey_url)
    monkeypatch.setenv("KEY_OF_THIS_TEST", service.key)
    current_store.cache_clear()
    yield
    current_store.cache_clear()


def job(store: Store, service: Any, **changes: Any) -> Job:
    endpoint = dataclasses.replace(ENDPOINT, base_url=service.url)
    asked: GuideContext = guided(endpoint=endpoint, endpoint_model="rules")
    sampling = {"temperature": 0.2, "top_p": 0.9, "max_new_tokens": 400, "seed": 3, **changes}
    keyed = ask_job(asked, "endpoint", "critique", MESSAGES, None, sampling, "c")
    return job_in(store, asked, keyed)


def test_a_critique_comes_with_who_wrote_it_and_what_it_cost(store: Store, service: Any) -> None:
    found = ask_endpoint(job(store, service), "critique", Critique)
    assert parse_critique(found["text"], found["finish"], 200, 400).summary
    assert (found["by"], found["finish"]) == (RULES, "stop")
    used = found["usage"]
    assert found["tokens"] == used["completion"] > 0 and used["prompt"] > 100
    assert used["cost_usd"] == pytest.approx((used["prompt"] * 2.0 + used["completion"] * 10.0) / 1e6)
    assert store.providers("a-guided-run", "reflector") == [RULES]


@pytest.mark.parametrize("fault", ["invalid_json", "refusal"])
def test_a_reply_that_cannot_be_used_is_kept_as_it_came(store: Store, service: Any, fault: str) -> None:
    service.fail(f"critique:{fault}:1")
    asked = job(store, service, temperature=0.3 if fault == "refusal" else 0.4)
    found = ask_endpoint(asked, "critique", Critique)
    with pytest.raises(UnusableReply):
        parse_critique(found["text"], found["finish"], 200, 400)
    assert len(service.calls(asked.call_id)) == 1
