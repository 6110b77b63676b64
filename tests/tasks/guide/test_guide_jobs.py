"""Keys of the jobs of a guided run: equal work has an equal key, and whatever changes a result changes its key."""

from __future__ import annotations

import dataclasses
from typing import Any

from guided_job import ENDPOINT, guided

from tasks.guide.jobs import ask_job, rollout_job
from tasks.guide.ticket import DecodeCell

ASKED = ("Judge tickets.", "A ticket.")
CELL = DecodeCell(0.8, 0.95, 64)
SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
SAMPLING = {"temperature": 0.2, "top_p": 0.9, "max_new_tokens": 200, "seed": 7}


def rollout_key(**changes: Any) -> str:
    given = {"context": guided(), "messages": ASKED, "cell": CELL, "seeds": (1, 2), "regex": None, "label": "l"}
    return rollout_job(**given | changes)[0]


def ask_key(**changes: Any) -> str:
    given = {"context": guided(endpoint=ENDPOINT, endpoint_model="m"), "backend": "target", "asked_for": "proposal",
             "messages": ASKED, "schema": SCHEMA, "label": "l", "sampling": SAMPLING}  # fmt: skip
    return ask_job(**given | changes)[0]


def test_what_changes_candidates_changes_their_key() -> None:
    cells = [{"temperature": 0.7}, {"top_p": 0.9}, {"max_new_tokens": 65}, {"stop": ("\n\n",)}]
    changes = [{"cell": dataclasses.replace(CELL, **one)} for one in cells]  # type: ignore[arg-type]
    changes += [{"context": guided(server={"version": "2"})}, {"messages": ("Judge otherwise.", "A ticket.")}]
    changes += [{"seeds": (1, 3)}, {"regex": "(pass|fail)"}, {}]
    assert len({rollout_key(**one) for one in changes}) == len(changes)


def test_what_changes_a_proposal_changes_its_key() -> None:
    def by(**changes: Any) -> str:
        context = guided(**{"endpoint": ENDPOINT, "endpoint_model": "m"} | changes)
        return ask_key(context=context, backend="endpoint")

    sampled = {"temperature": 0.3, "top_p": 0.8, "max_new_tokens": 9, "seed": 8}
    elsewhere = dataclasses.replace(ENDPOINT, base_url="https://api.example.com/v1")
    keys = [ask_key(sampling={**SAMPLING, name: value}) for name, value in sampled.items()]
    keys += [ask_key(), ask_key(messages=("s", "u")), by(), by(endpoint=elsewhere), by(endpoint_model="n")]
    assert len(set(keys)) == len(keys)
    assert by(endpoint=dataclasses.replace(ENDPOINT, timeout_s=99)) == by()
    assert by(server={"version": "2"}) == by()  # the target has no part in it
