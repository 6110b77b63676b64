"""The reflector: the tickets that it is shown, and the edits that it wants."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest
from guide_records import answers, ticket
from hypothesis import given
from hypothesis import strategies as st

from tasks.guide.critique import Critique
from tasks.guide.operations import Operation, apply_operations
from tasks.guide.prompting import MissingExperience
from tasks.guide.proposal import (
    BundleTicket,
    GuideProposal,
    narrowed_schema,
    parse_proposal,
    pooled_suggestions,
    proposal_messages,
)
from tasks.guide.templates import ReflectionTemplate
from tasks.guide.ticket import Ticket

TEMPLATE = ReflectionTemplate.read(Path(__file__).parents[3] / "configs" / "guide" / "reflection.txt")
EXPERIENCES = {"G0": "Fail when a cable is loose."}
EDIT = {"op": "upsert", "key": None, "text": "Fail when the wire is black.", "rationale": "It fails twice."}
WRONG = Critique("It passes.", "The wire is black.", root_cause="No rule.", candidate_ops=(EDIT,))


def bundle() -> list[BundleTicket]:
    first = answers(("pass", 0.9), ("pass", 0.4), ("fail", 0.5), None)
    second = answers(("pass", 0.9))
    again = Critique(
        "s", "c", candidate_ops=({**EDIT, "text": "fail when the wire is BLACK"}, {**EDIT, "op": "remove"})
    )
    return [
        BundleTicket(ticket("fail", "a"), "mixed", tuple(zip(first, (WRONG, None, None, None), strict=True))),
        BundleTicket(ticket("fail", "b"), "all_wrong", tuple(zip(second, (again,), strict=True))),
    ]


def user_message(groups: list[BundleTicket], contrast: tuple[Ticket, ...] = ()) -> str:
    return proposal_messages(TEMPLATE, "Whether cables are tied.", EXPERIENCES, groups, contrast, 3)[1]


def shown_tickets(user: str) -> list[dict[str, Any]]:
    return [json.loads(line.removesuffix(",")) for line in user.split("\n") if '"images"' in line]


def test_each_ticket_is_shown_with_its_number_label_and_answers() -> None:
    first, second, right = shown_tickets(user_message(bundle(), (ticket("pass", "c"),)))
    assert [(one["group"], one["group_id"], one["label"]) for one in (first, second)] == [
        ("第1组", "a", "fail"), ("第2组", "b", "fail"),
    ]  # fmt: skip
    assert first["images"] == {"image_1": "The cable is tied.", "image_2": "The cabinet is closed."}
    # Equal answers are one, with how often they came, and what the critic said of the first.
    assert [(a.get("verdict"), a.get("right"), a["times"]) for a in first["answers"]] == [
        ("pass", False, 2), ("fail", True, 1), (None, None, 1),
    ]  # fmt: skip
    assert first["answers"][0]["root_cause"] == "No rule." and "critique" not in first["answers"][1]
    assert right == {"label": "pass", "images": first["images"]}


def test_suggestions_are_pooled_over_tickets() -> None:
    assert pooled_suggestions(bundle()) == [
        {"op": "upsert", "text": EDIT["text"], "rationale": EDIT["rationale"], "groups": ["第1组", "第2组"]},
        {"op": "remove", "text": EDIT["text"], "rationale": EDIT["rationale"], "groups": ["第2组"]},
    ]


@given(st.text(), st.text())
def test_no_summary_or_reason_changes_the_structure(summary: str, reason: str) -> None:
    hostile = Ticket("t", "cables", "fail", {"image_1": summary})
    said = Critique(reason, reason, issues=(reason,), candidate_ops=({**EDIT, "text": reason},))
    [candidate] = answers(("pass", 0.5))
    groups = [BundleTicket(hostile, "all_wrong", ((candidate, said),))]
    lines = user_message(groups, (hostile,)).split("\n")
    plain = user_message([BundleTicket(ticket(), "all_wrong", ((candidate, WRONG),))], (ticket(),)).split("\n")
    assert [line[:9] for line in lines] == [line[:9] for line in plain]


def test_a_prompt_without_an_experience_or_a_ticket_is_an_error() -> None:
    with pytest.raises(ValueError, match="no ticket"):
        user_message([])
    with pytest.raises(MissingExperience):
        proposal_messages(TEMPLATE, "f", {}, bundle(), (), 3)


def test_a_proposal_is_read_and_its_operations_can_be_applied() -> None:
    operation = {**EDIT, "evidence": ["第1组", "b", "第9组"], "merged_from": []}
    reply = {
        "action": "refine",
        "summary": None,
        "critique": "c",
        "operations": [operation, {"op": "remove", "evidence": []}],
        "evidence_group_ids": ["a"],
        "uncertainty_note": " ",
    }
    found = parse_proposal(json.dumps(reply), "stop")
    assert isinstance(found, GuideProposal)
    assert found.operations == (
        Operation("upsert", None, EDIT["text"], EDIT["rationale"], ("第1组", "b", "第9组")),
        Operation("remove", None, None, None, ()),
    )
    assert (found.action, found.summary, found.uncertainty_note) == ("refine", None, None)
    assert found.evidence_group_ids == ("a",)
    applied = apply_operations(EXPERIENCES, 0, found.operations, max_operations=3, cap_left=9, group_ids=["a", "b"],
                               ticket_texts=[])  # fmt: skip
    assert applied.experiences == {**EXPERIENCES, "G1": EDIT["text"]} and len(applied.rejected) == 1


def test_under_the_narrowed_form_no_other_key_or_group_can_be_named() -> None:
    edit: dict[str, Any] = {
        "op": "upsert", "key": None, "text": "t", "rationale": None, "evidence": ["第1组"], "merged_from": []
    }  # fmt: skip
    whole: dict[str, Any] = {
        "action": "refine", "summary": None, "critique": None, "evidence_group_ids": ["第2组"],
        "uncertainty_note": None, "operations": [edit],
    }  # fmt: skip
    check = fastjsonschema.compile(narrowed_schema(["G0", "G3"], 2))
    check(whole)
    assert isinstance(parse_proposal(json.dumps(whole), "stop"), GuideProposal)
    for name, value in (("key", "G1"), ("evidence", ["第3组"]), ("evidence", []), ("merged_from", ["G9"])):
        with pytest.raises(fastjsonschema.JsonSchemaValueException):
            check({**whole, "operations": [{**edit, name: value}]})
