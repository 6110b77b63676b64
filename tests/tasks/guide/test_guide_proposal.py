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
    solved_before,
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
    right, failing, first, second = shown_tickets(user_message(bundle(), (ticket("fail", "d"), ticket("pass", "c"))))
    assert [(one["group"], one["group_id"], one["label"]) for one in (first, second)] == [
        ("第1组", "a", "fail"), ("第2组", "b", "fail"),
    ]  # fmt: skip
    assert first["images"] == {"image_1": "The cable is tied.", "image_2": "The cabinet is closed."}
    # Equal answers are one, with how often they came, and what the critic said of the first.
    assert [(a.get("verdict"), a.get("right"), a["times"]) for a in first["answers"]] == [
        ("pass", False, 2), ("fail", True, 1), (None, None, 1),
    ]  # fmt: skip
    assert first["answers"][0]["root_cause"] == "No rule." and "critique" not in first["answers"][1]
    assert right == {"label": "pass", "images": first["images"]} and failing == {**right, "label": "fail"}


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


WHOLE: dict[str, Any] = {
    "action": "refine", "summary": None, "critique": None, "evidence_group_ids": ["第2组"], "uncertainty_note": None,
}  # fmt: skip


def test_the_turn_before_is_a_solved_bundle_in_the_language_of_the_mission() -> None:
    for focus, rule in (("Whether cables are tied.", "Fail the ticket when"), ("检查线缆。", "时判不通过。")):
        asked = proposal_messages(TEMPLATE, focus, EXPERIENCES, bundle(), (), 3)
        system, shown, reply, user = solved_before(asked, TEMPLATE, focus)
        assert (system, user) == asked and shown != user
        fastjsonschema.validate(narrowed_schema(["G0"], 5, 1), json.loads(reply))
        assert "\\" not in reply, "a grammar may take no escape"
        found = parse_proposal(reply, "stop")
        assert isinstance(found, GuideProposal) and rule in str(found.operations[0].text)
        assert list(json.loads(reply)) == list(narrowed_schema(["G0"], 5, 1)["properties"])
        assert ("你的提议" in user) == ("你的提议" in shown) == (focus == "检查线缆。")


NARROWED: dict[str, dict[str, Any]] = {
    "upsert": {"op": "upsert", "key": None, "text": "t", "rationale": None, "evidence": ["第1组"]},
    "remove": {"op": "remove", "key": "G3", "rationale": None, "evidence": ["第1组"]},
    "merge": {
        "op": "merge", "merged_from": ["G0", "G3"], "key": "G0", "text": "t", "rationale": None, "evidence": ["第2组"],
    },
}  # fmt: skip


def keeps(keys: list[str], *operations: dict[str, Any]) -> bool:
    whole = {**WHOLE, "operations": operations}
    try:
        fastjsonschema.validate(narrowed_schema(keys, 2, 2), json.loads(json.dumps(whole)))
    except fastjsonschema.JsonSchemaValueException:
        return False
    found = parse_proposal(json.dumps(whole), "stop")
    assert isinstance(found, GuideProposal)
    experiences = {key: f"Text of {key}." for key in keys}
    given = {"max_operations": 3, "cap_left": 9, "group_ids": ["a", "b"], "ticket_texts": []}
    assert not apply_operations(experiences, 3, found.operations, **given).rejected  # type: ignore[arg-type]
    return True


@pytest.mark.parametrize("op", NARROWED)
def test_the_narrowed_form_has_only_edits_that_can_be_applied(op: str) -> None:
    assert keeps(["G0", "G3"], NARROWED[op])
    # With one experience there is nothing to remove or merge.
    assert keeps(["G0"], NARROWED[op]) == (op == "upsert")


@pytest.mark.parametrize(
    ("op", "name", "value"),
    [
        ("upsert", "key", "G1"), ("upsert", "text", None), ("upsert", "evidence", ["第3组"]),
        ("upsert", "evidence", []),
        ("remove", "key", None), ("merge", "merged_from", ["G0", "G9"]), ("merge", "merged_from", ["G0"]),
    ],
)  # fmt: skip
def test_under_the_narrowed_form_nothing_else_can_be_named(op: str, name: str, value: object) -> None:
    assert not keeps(["G0", "G3"], {**NARROWED[op], name: value})


def test_the_narrowed_form_has_no_more_edits_than_are_looked_at() -> None:
    other = {**NARROWED["upsert"], "text": "u"}
    assert keeps(["G0"], NARROWED["upsert"], other) and not keeps(["G0"], NARROWED["upsert"], other, other)
