"""A critique by an endpoint is kept as it came, whether it can be used or not."""

from __future__ import annotations

import dataclasses
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

TEMPLATE = Template.read(Path(__file__).parents[3] / "configs" / "guide" / "critic.txt", CRITIC_PLACES)
TICKET = Ticket("t", "wiring", "fail", {"image_1": "The wire is black."})
ANSWER = read_candidate(0, 0, 1, "Verdict: pass\nReason: the wire is tied\nConfidence: 0.9", 9, "stop")
MESSAGES = critic_messages(
    TEMPLATE, "Whether wires are right.", {"G0": "Look at the wire."},
    judge(TICKET, (ANSWER,), SelectionRule("confidence", ())), ANSWER,
    summary_max_chars=200, critique_max_chars=400,
)  # fmt: skip


@pytest.mark.parametrize("fault", ["", "invalid_json", "refusal"])
def test_a_critique_comes_as_it_is_with_who_wrote_it_and_what_it_cost(
    store: Store, service: Any, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setenv("KEY_OF_THIS_TEST", service.key)
    asked: GuideContext = guided(endpoint=dataclasses.replace(ENDPOINT, base_url=service.url), endpoint_model="rules")
    sampling = {"temperature": 0.2, "top_p": 0.9, "max_new_tokens": 400, "seed": 3 + len(fault)}
    job = job_in(store, asked, ask_job(asked, "endpoint", "critique", MESSAGES, None, sampling, "c"))
    service.fail(f"critique:{fault}:1" if fault else "")
    found = ask_endpoint(job, "critique", Critique)
    assert len(service.calls(job.call_id)) == 1
    if fault:
        with pytest.raises(UnusableReply):
            parse_critique(found["text"], found["finish"], 200, 400)
        return
    assert parse_critique(found["text"], found["finish"], 200, 400).summary
    assert (found["by"], found["finish"], store.providers("a-guided-run", "reflector")) == (RULES, "stop", [RULES])
    used = found["usage"]
    assert found["tokens"] == used["completion"] > 0 and used["prompt"] > 100
    assert used["cost_usd"] == pytest.approx((used["prompt"] * 2.0 + used["completion"] * 10.0) / 1e6)
