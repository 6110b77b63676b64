"""A critique by an endpoint is kept as it came, whether it can be used or not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compatible_servers import INVALID_REPLY, Server, completion
from guided_job import ENDPOINT, guided, job_in

from tasks.guide.choose import SelectionRule, judge
from tasks.guide.jobs import ask_job
from tasks.guide.prompts import CRITIC_PLACES, Template, critic_messages
from tasks.guide.replies import Critique, UnusableReply, parse_critique
from tasks.guide.ticket import Ticket, read_candidate
from tasks.guide.work import ask_endpoint
from tasks.openai.endpoint import RULES
from tasks.store.store import Store
from tasks.task import Job

TEMPLATE = Template.read(Path(__file__).parents[3] / "configs" / "guide" / "critic.txt", CRITIC_PLACES)
TICKET = Ticket("t", "wiring", "fail", {"image_1": "The wire is black."})
ANSWER = read_candidate(0, 0, 1, "Verdict: pass\nReason: the wire is tied\nConfidence: 0.9", 9, "stop")
MESSAGES = critic_messages(
    TEMPLATE, "Whether wires are right.", {"G0": "Look at the wire."},
    judge(TICKET, (ANSWER,), SelectionRule("confidence", ())), ANSWER,
    summary_max_chars=200, critique_max_chars=400,
)  # fmt: skip


@pytest.fixture
def job_at(store: Store, service: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Job]:
    """A function that makes the job of a critique by the endpoint at an address."""
    monkeypatch.setenv("KEY_OF_THIS_TEST", service.key)

    def make(url: str) -> Job:
        asked = guided(endpoint=dataclasses.replace(ENDPOINT, base_url=url), endpoint_model="rules")
        sampling = {"temperature": 0.2, "top_p": 0.9, "max_new_tokens": 400, "seed": 3}
        return job_in(store, asked, ask_job(asked, "endpoint", "critique", MESSAGES, None, sampling, "c"))

    return make


def read(found: dict[str, Any]) -> Critique:
    return parse_critique(found["text"], found["finish"], 200, 400)


def test_a_critique_comes_as_it_is_with_who_wrote_it_and_what_it_cost(store: Store, service: Any, job_at: Any) -> None:
    found = ask_endpoint(job_at(service.url), "critique", Critique)
    assert read(found).summary
    assert (found["by"], found["finish"], store.providers("a-guided-run", "reflector")) == (RULES, "stop", [RULES])
    used = found["usage"]
    assert found["tokens"] == used["completion"] > 0 and used["prompt"] > 100
    assert used["cost_usd"] == pytest.approx((used["prompt"] * 2.0 + used["completion"] * 10.0) / 1e6)


@pytest.mark.parametrize("fault", ["invalid_json", "refusal"])
def test_a_reply_that_cannot_be_used_is_not_asked_for_again(service: Any, job_at: Any, fault: str) -> None:
    job = job_at(service.url)
    before = len(service.calls(job.call_id))
    service.fail(f"critique:{fault}:*")
    with pytest.raises(UnusableReply):
        read(ask_endpoint(job, "critique", Critique))
    assert len(service.calls(job.call_id)) == before + 1


def test_a_reply_that_the_endpoint_refuses_is_asked_for_again_and_then_kept_with_the_reason(
    start: Any, job_at: Any
) -> None:
    server = start(Server())
    good = completion({"content": '{"summary": "Wrong.", "critique": "The wire is black."}'})
    server.troubles = [(400, INVALID_REPLY), (200, good), (400, INVALID_REPLY), (400, INVALID_REPLY)]
    job = job_at(f"{server.url}/v1")
    assert read(ask_endpoint(job, "critique", Critique)).summary == "Wrong."
    found = ask_endpoint(job, "critique", Critique)
    assert [body["seed"] for _, body in server.asked] == [3, 4, 3, 4]
    assert (found["text"], found["tokens"]) == ('{"scratch', 0)
    with pytest.raises(UnusableReply, match="Generated JSON does not match the expected schema"):
        read(found)
