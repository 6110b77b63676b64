"""The rule reflector proposes the experience that the counts of words in the shown tickets give, or nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.guide.choose import SelectionRule, judge
from tasks.guide.experiences import apply_operations
from tasks.guide.prompts import REFLECTION_PLACES, Template, proposal_messages
from tasks.guide.replies import parse_proposal
from tasks.guide.ticket import Ticket, Verdict, read_candidate
from workers.embedded.rules import RULES

TEMPLATE = Template.read(Path(__file__).parents[4] / "configs" / "guide" / "reflection.txt", REFLECTION_PLACES)
FIRST = {"G0": "Read every summary."}


def ticket(number: int, label: Verdict, text: str) -> Ticket:
    return Ticket(f"t-{number}", "wiring", label, {"image_1": text, "image_2": "The lamp is lit."})


def propose(
    bundle: Sequence[Ticket], contrast: Sequence[Ticket] = (), experiences: dict[str, str] = FIRST
) -> dict[str, Any]:
    [candidate] = [read_candidate(0, 0, 1, "Verdict: pass\nReason: r\nConfidence: 0.5", 9, "stop")]
    groups = [judge(one, (candidate,), SelectionRule("confidence", ())) for one in bundle]
    messages = proposal_messages(TEMPLATE, "Whether wires are right.", experiences, groups, {}, contrast, 3)
    reply = RULES["proposal"](*messages)
    parse_proposal(json.dumps(reply), "stop")
    return reply


FAILING = [ticket(n, "fail", text) for n, text in enumerate(["A black wire is there.", "The wire is black."])]
PASSING = [ticket(n + 2, "pass", text) for n, text in enumerate(["A green wire.", "The wire was grey.", "White wire."])]


def test_words_that_only_failing_tickets_have_become_a_fault() -> None:
    reply = propose(FAILING, PASSING)
    [operation] = reply["operations"]
    assert operation["text"] == 'Fail the ticket when a summary says "black wire".'
    assert operation["evidence"] == ["第1组", "第2组"] == reply["evidence_group_ids"]
    assert (
        operation["rationale"] == "The words stand in 0 of 3 tickets with label pass, 2 of 2 tickets with label fail."
    )
    # And the edit is a valid one.
    read = parse_proposal(json.dumps(reply), "stop")
    applied = apply_operations(FIRST, 0, read.operations, max_operations=3, cap_left=9, bundle=["t-0", "t-1"],
                               tickets={one.group_id: one.per_image.values() for one in FAILING})  # fmt: skip
    assert applied.experiences == {**FIRST, "G1": operation["text"]}
