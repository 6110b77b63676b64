"""A batch as one value: what is found in it is what the rules find, and it goes through JSON unchanged."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from guide_records import GRID, answers, scores, ticket

from tasks.guide.batch import BatchFindings, BatchInput, GateInput, TicketCandidates, decide_gate, find_in_batch
from tasks.guide.eligibility import NOT_BY_POLICY
from tasks.guide.gate import decide
from tasks.validation import parse_json

BATCH = BatchInput(
    groups=(
        TicketCandidates(ticket("pass", "mixed"), answers(("fail", 0.9), ("pass", 0.5), ("fail", 0.4))),
        TicketCandidates(ticket("fail", "right"), answers(("fail", 0.9), ("fail", 0.5))),
        TicketCandidates(ticket("fail", "malformed"), answers(None, None)),
        TicketCandidates(ticket("fail", "wrong"), answers(("pass", 0.9), None)),
    ),
    grid=GRID,
    store_confidence=True,
    enable_consistency=True,
    tie_break="confidence",
    weights=None,
    policy="selected_mismatch_or_all_wrong",
    all_wrong_strategy="reflect_diagnose",
)


def through_json(value: Any) -> Any:
    return parse_json(type(value), json.dumps(dataclasses.asdict(value), ensure_ascii=False))


def test_each_ticket_has_its_signals_and_both_selections() -> None:
    found = find_in_batch(BATCH)
    mixed, right, malformed, _ = found.groups
    assert [s.label_match for s in mixed.signals] == [False, True, False]
    assert [s.self_consistency for s in mixed.signals] == pytest.approx([2 / 3, 1 / 3, 2 / 3])
    assert (mixed.label_first.candidate, mixed.label_free.candidate) == (1, 0)
    assert (right.label_first, right.outcome.kind) == (right.label_free, "all_right")
    assert malformed.label_free.verdict is None and malformed.outcome.kind == "all_wrong"
    assert found.screening.bundle == ("mixed", "malformed", "wrong")
    assert found.screening.left_out == {"right": NOT_BY_POLICY}


def test_a_batch_and_its_findings_go_through_the_store_unchanged() -> None:
    batch = dataclasses.replace(BATCH, policy="contradictions_only", all_wrong_strategy="manual_review")
    assert through_json(batch) == batch
    found = find_in_batch(batch)
    assert through_json(found) == found
    with_time = json.dumps(dataclasses.asdict(found) | {"seconds": 0.1})  # which the worker adds
    assert parse_json(BatchFindings, with_time) == found


def test_the_gate_decides_alike_on_values_from_the_store() -> None:
    before = tuple(scores("pass", n % 3, 4 - n % 3, group_id=f"t-{n}") for n in range(12))
    after = tuple(scores("pass", n % 3 + 1, 3 - n % 3, group_id=f"t-{n}") for n in range(12))
    asked = GateInput(before, after, 0.02, 0.8, 0.05, 3)
    bounds = {"apply_if_delta": 0.02, "min_probability": 0.8, "max_false_pass_rise": 0.05, "seed": 3}
    assert decide_gate(through_json(asked)) == decide(before, after, **bounds)
