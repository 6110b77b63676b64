"""The cpu jobs of a guided run, from their specs in the store to what they leave there."""

from __future__ import annotations

import json

from guided_job import guided, job_in

from tasks.cpu.guide import batch_signals, gate_decision, verify_candidates
from tasks.guide.batch import BatchFindings, BatchInput, GateInput, TicketCandidates, VerifyInput, find_in_batch
from tasks.guide.candidates import read_candidate
from tasks.guide.decoding import DecodeCell
from tasks.guide.gate import GateDecision, TicketScores
from tasks.guide.jobs import gate_job, signals_job, verify_job
from tasks.guide.ticket import Ticket
from tasks.guide.verifier import load_verifier
from tasks.store.store import Store
from tasks.validation import parse_json

TICKET = Ticket("t-1", "cables", "fail", {"image_2": "The cabinet is closed.", "image_10": "第二张：未贴标签"})
CANDIDATES = tuple(
    read_candidate(index, 0, index, index, f"Verdict: {verdict}\nReason: as shown\nConfidence: 0.5", 20, "stop")
    for index, verdict in enumerate(("pass", "不通过", "maybe"))
)


def is_sure(ticket: dict, candidate: dict) -> tuple[float, list[str]]:
    return candidate["confidence"] or 0.0, [candidate["verdict"] or "malformed"]


def test_a_batch_is_measured_and_screened(store: Store) -> None:
    batch = BatchInput((TicketCandidates(TICKET, CANDIDATES),), (DecodeCell(0.0, 1.0, 64),), True, True, "confidence",
                       None, "contradictions_only", "manual_review")  # fmt: skip
    found = batch_signals(job_in(store, guided(), signals_job(batch, "signals-1")))
    assert parse_json(BatchFindings, json.dumps(found)) == find_in_batch(batch)
    assert found["screening"]["bundle"] == ("t-1",) and found["groups"][0]["label_first"]["candidate"] == 1


def test_the_gate_refuses_an_edit_that_helps_nobody(store: Store) -> None:
    held_out = (TicketScores("t-1", "fail", ("pass", "fail", None)),)
    found = gate_decision(job_in(store, guided(), gate_job(GateInput(held_out, held_out, 0.02, 0.8, 0.0, 1), "gate-1")))
    decision = parse_json(GateDecision, json.dumps(found))
    assert (decision.apply, decision.reason, decision.uplift) == (False, "uplift", 0.0)


def test_a_verifier_sees_each_candidate(store: Store) -> None:
    name = f"{__file__}:is_sure"
    asked = VerifyInput(name, load_verifier(name).identity, TICKET, CANDIDATES)
    found = verify_candidates(job_in(store, guided(), verify_job(guided(), asked, "verify-1")))["verified"]
    assert [one["verifier_tags"] for one in found] == [["pass"], ["fail"], ["malformed"]]
    assert [one["verifier_score"] for one in found] == [0.5, 0.5, 0.0]
