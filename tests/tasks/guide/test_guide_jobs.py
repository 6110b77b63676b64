"""Keys of the jobs of a guided run: equal work has an equal key, and whatever changes a result changes its key."""

from __future__ import annotations

import dataclasses
from typing import Any

from guided_job import ENDPOINT, guided

from tasks.guide.jobs import ask_job, rollout_job
from tasks.guide.ticket import DecodeCell

CELL = DecodeCell(0.8, 0.95, 64)
SAMPLING = {"temperature": 0.2, "top_p": 0.9, "max_new_tokens": 200, "seed": 7}


def test_what_changes_candidates_changes_their_key() -> None:
    given = {"context": guided(), "messages": ("s", "u"), "cell": CELL, "seeds": (1, 2), "regex": None, "label": "l"}
    cells = [{"temperature": 0.7}, {"top_p": 0.9}, {"max_new_tokens": 65}, {"stop": ("\n\n",)}]
    changes: list[dict[str, Any]] = [{"cell": dataclasses.replace(CELL, **one)} for one in cells]  # type: ignore[arg-type]
    changes += [{"context": guided(server={"version": "2"})}, {"messages": ("Judge otherwise.", "u")}]
    changes += [{"seeds": (1, 3)}, {"regex": "(pass|fail)"}, {}]
    assert len({rollout_job(**given | one)[0] for one in changes}) == len(changes)


def test_what_changes_a_proposal_changes_its_key() -> None:
    def key(backend: str, messages: Any = ("s", "u"), sampling: Any = SAMPLING, **context: Any) -> str:
        asker = guided(**{"endpoint": ENDPOINT, "endpoint_model": "m"} | context)
        return ask_job(asker, backend, "proposal", messages, {"type": "object"}, sampling, "l")[0]  # type: ignore[arg-type]

    sampled = {"temperature": 0.3, "top_p": 0.8, "max_new_tokens": 9, "seed": 8}
    elsewhere = dataclasses.replace(ENDPOINT, base_url="https://api.example.com/v1")
    keys = [key("target", sampling={**SAMPLING, name: value}) for name, value in sampled.items()]
    keys += [key("target"), key("target", messages=("s", "other")), key("endpoint")]
    keys += [key("endpoint", endpoint=elsewhere), key("endpoint", endpoint_model="n")]
    assert len(set(keys)) == len(keys)
    # neither how long it may take nor the target has a part in what the endpoint says
    slow = dataclasses.replace(ENDPOINT, timeout_s=99)
    assert key("endpoint") == key("endpoint", endpoint=slow) == key("endpoint", server={"version": "2"})
