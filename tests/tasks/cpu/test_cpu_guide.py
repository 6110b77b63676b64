"""The job of a verifier, from its spec in the store to what it leaves there."""

from __future__ import annotations

from typing import Any

from guided_job import guided, job_in

from tasks.cpu.guide import verify_candidates
from tasks.guide.candidates import Ticket, read_candidate
from tasks.guide.jobs import VerifyInput, verify_job
from tasks.guide.verifier import load_verifier
from tasks.store.store import Store

TICKET = Ticket("t-1", "cables", "fail", {"image_2": "The cabinet is closed.", "image_10": "第二张：未贴标签"})
CANDIDATES = tuple(
    read_candidate(index, 0, index, index, f"Verdict: {verdict}\nReason: as shown\nConfidence: 0.5", 20, "stop")
    for index, verdict in enumerate(("pass", "不通过", "maybe"))
)


def is_sure(ticket: dict[str, Any], candidate: dict[str, Any]) -> tuple[float, list[str]]:
    return candidate["confidence"] or 0.0, [candidate["verdict"] or "malformed"]


def test_a_verifier_sees_each_candidate(store: Store) -> None:
    name = f"{__file__}:is_sure"
    asked = VerifyInput(name, load_verifier(name).identity, TICKET, CANDIDATES)
    found = verify_candidates(job_in(store, guided(), verify_job(asked, "verify-1")))["verified"]
    assert [one["verifier_tags"] for one in found] == [["pass"], ["fail"], ["malformed"]]
    assert [one["verifier_score"] for one in found] == [0.5, 0.5, 0.0]
