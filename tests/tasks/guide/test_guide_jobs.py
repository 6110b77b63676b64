"""Jobs: whatever changes a result changes its key; a verifier of the user's own, and its faults in one line."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from guide_records import found, ticket
from guided_job import ENDPOINT, guided

from tasks.common.named import ChildFunctionError
from tasks.guide.jobs import ask_job, rollout_job, verify_job
from tasks.guide.ticket import DecodeCell
from tasks.guide.work import load_verifier, verify_candidates

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


SOURCE = """
import os

def lengths(ticket, candidate):
    return len(candidate["reason"] or ""), [ticket["label"], *ticket["per_image"]]

fails = lambda ticket, candidate: {}["no such key\\nat all"]
ends = lambda ticket, candidate: os._exit(3)
just_a_number = lambda ticket, candidate: 1.0
not_finite = lambda ticket, candidate: (float("nan"), [])
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    load_verifier.cache_clear()
    path = tmp_path / "my_verifiers.py"
    path.write_text(SOURCE)
    return path


def verified(name: str, identity: str = "") -> Any:
    name = f"my_verifiers:{name}"
    one = found(ticket(), ("pass", 0.5), None)
    _, spec = verify_job(name, identity or load_verifier(name).identity, one, "verify-1")
    return verify_candidates(spec.arguments)["verified"]


def test_each_candidate_gets_a_score_and_tags_and_what_cannot_be_used_is_named(module: Path) -> None:
    tags = ["pass", "image_1", "image_2"]
    assert [one["verifier_score"] for one in verified("lengths")] == [len("as the images show"), 0]
    assert [one["verifier_tags"] for one in verified("lengths")] == [tags, tags]
    for name in ("fails", "ends", "just_a_number", "not_finite", "nobody"):
        with pytest.raises(ChildFunctionError, match=f"my_verifiers:{name}") as error:
            verified(name)
        assert "\n" not in str(error.value)


def test_nothing_is_kept_under_the_commands_key_where_a_worker_has_another_source(module: Path) -> None:
    before = load_verifier("my_verifiers:lengths").identity
    load_verifier.cache_clear()
    module.write_text(SOURCE.replace('"reason"', '"text"'))
    with pytest.raises(ChildFunctionError):
        verified("lengths", before)
