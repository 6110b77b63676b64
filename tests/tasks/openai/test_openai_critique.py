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
GOOD = completion({"content": '{"summary": "Wrong.", "critique": "The wire is black."}'})
REFUSED = (400, INVALID_REPLY)
SAID = "Generated JSON does not match the expected schema"
USED = {"prompt": 300, "cached": 0, "completion": 8, "cost_usd": pytest.approx((300 * 2.0 + 8 * 10.0) / 1e6)}
NOTHING = {"prompt": 0, "cached": 0, "completion": 0, "cost_usd": 0}


@pytest.mark.parametrize(
    ("replies", "seeds", "used", "reason"),
    [
        ([(200, GOOD)], [3], USED, ""),
        # A reply that cannot be used is not asked for again: whoever asked decides what becomes of it.
        ([(200, completion({"content": "no JSON"}))], [3], USED, "it is not one JSON object"),
        # One that the endpoint itself refuses is, and is then kept with the reason.
        ([REFUSED, (200, GOOD)], [3, 4], USED, ""),
        ([REFUSED, REFUSED], [3, 4], NOTHING, SAID),
    ],
)
def test_a_critique_comes_as_it_is_with_who_wrote_it_and_what_it_cost(
    store: Store, service: Any, start: Any, replies: Any, seeds: list[int], used: dict[str, float], reason: str
) -> None:
    server = start(Server())
    server.troubles = list(replies)
    asked = guided(endpoint=dataclasses.replace(ENDPOINT, base_url=f"{server.url}/v1"), endpoint_model="critic-1")
    job = job_in(store, asked, ask_job(asked, "endpoint", "critique", ("Criticise.", "It."), None, SAMPLING, "c"))
    found = ask_endpoint(job, "critique", Critique)
    assert [body["seed"] for _, body in server.asked] == seeds
    assert (found["by"], found["tokens"], found["usage"]) == ("critic-1", used["completion"], used)
    assert store.providers("a-guided-run", "reflector") == ["critic-1"]
    if not reason:
        assert parse_critique(found["text"], found["finish"], 200, 400).critique == "The wire is black."
        return
    with pytest.raises(UnusableReply, match=reason):
        parse_critique(found["text"], found["finish"], 200, 400)
    assert found["text"] in ("no JSON", '{"scratch'), "it is shown"
