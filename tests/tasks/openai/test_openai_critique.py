"""A critique by an endpoint is kept as it came, whether it can be used or not."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from compatible_servers import INVALID_REPLY, Server, completion
from guided_job import ENDPOINT, guided, job_in

from tasks.guide.jobs import ask_job
from tasks.guide.replies import Critique, UnusableReply, parse_critique
from tasks.guide.work import ask_endpoint
from tasks.store.store import Store

SAMPLING = {"temperature": 0.2, "top_p": 0.9, "max_new_tokens": 400, "seed": 3}
UNUSABLE = (200, completion({"content": "no JSON"}))
REFUSED = (400, INVALID_REPLY)


@pytest.mark.parametrize(
    ("replies", "seeds", "completion_tokens", "reason"),
    [
        # A reply that cannot be used is not asked for again: whoever asked decides what becomes of it.
        ([UNUSABLE], [3], 8, "it is not one JSON object"),
        # One that the endpoint itself refuses is, and is then kept with the reason.
        ([REFUSED, UNUSABLE], [3, 4], 8, "it is not one JSON object"),
        ([REFUSED, REFUSED], [3, 4], 0, "Generated JSON does not match the expected schema"),
    ],
)
def test_a_critique_comes_as_it_is_with_who_wrote_it_and_what_it_cost(
    store: Store, service: Any, start: Any, replies: Any, seeds: list[int], completion_tokens: int, reason: str
) -> None:
    server = start(Server())
    server.troubles = list(replies)
    asked = guided(endpoint=dataclasses.replace(ENDPOINT, base_url=f"{server.url}/v1"), endpoint_model="critic-1")
    job = job_in(store, asked, ask_job(asked, "endpoint", "critique", ("Criticise.", "It."), None, SAMPLING, "c"))
    found = ask_endpoint(job, "critique", Critique)
    assert [body["seed"] for _, body in server.asked] == seeds
    cost = (300 * 2.0 + 8 * 10.0) / 1e6 if completion_tokens else 0
    assert (found["by"], found["tokens"]) == ("critic-1", completion_tokens)
    assert found["usage"]["cost_usd"] == pytest.approx(cost)
    assert store.providers("a-guided-run", "reflector") == ["critic-1"]
    with pytest.raises(UnusableReply, match=reason):
        parse_critique(found["text"], found["finish"], 200, 400)
    assert found["text"] in ("no JSON", '{"scratch'), "it is shown"
