"""A verifier of the user's own adds a score and tags, and its faults are named in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from guide_records import found, ticket

from tasks.common.named import ChildFunctionError
from tasks.guide.jobs import verify_job
from tasks.guide.work import load_verifier, verify_candidates

SOURCE = """
import os

def lengths(ticket, candidate):
    return len(candidate["reason"] or ""), [ticket["label"], *ticket["per_image"]]

fails = lambda ticket, candidate: {}["no such key\\nat all"]
ends = lambda ticket, candidate: os._exit(3)
just_a_number = lambda ticket, candidate: 1.0
not_finite = lambda ticket, candidate: (float("nan"), [])
"""


@pytest.fixture(autouse=True)
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


def test_each_candidate_gets_a_score_and_tags_and_what_cannot_be_used_is_named() -> None:
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
