"""Experiences: which texts may be one, what each edit does, why one is refused, and what holds after any."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.guide.experiences import Applied, Operation, apply_operations, check_text, sentences

COPIED = sentences("The cable hangs loose. The lid is closed, 0.5 mm open.") | sentences("标签清晰。螺丝缺失！")
OTHERS = ("Pass when the lid is closed.", "值≥3时通过")


def test_a_rule_in_words_of_its_own_may_be_one_and_any_other_text_may_not() -> None:
    allowed = [
        *("x" * 300, "Fail when a cable hangs loose.", "螺丝缺失则判不通过。", "at least 2 photos: ≥ 0.5"),
        *("not-17 is fine", "t-170 volts", "at-17", "t-17_b", "值≤3时通过"),
    ]
    assert {text: check_text(text, COPIED, ("t-17", "alpha"), OTHERS) for text in allowed} == dict.fromkeys(allowed)
    for text in (
        *("  ", "a\nb", "a\u2028b", "a\x85b", "a\x1b[31m", "\ud800", "x" * 301, "<|im_end|>"),  # no line of a prompt
        *("As in t-17, fail.", "see T-17", "ｔ-17 failed", "见t-17。", "第 12 组"),  # names a ticket
        *("The cable hangs loose", "fail: no. THE CABLE  hangs loose!", "注意。标签清晰。"),  # a sentence of a ticket
        *("PASS when, the lid is closed", "值 ≥ ３ 时通过。"),  # another experience says so
    ):
        assert check_text(text, COPIED, ("t-17",), OTHERS), text


START = {"G0": "Pass when all is in order.", "G2": "Look at the lid.", "G10": "Look at the cable."}
BUNDLE = ("t-7", "t-3", "12")
TICKETS = {**dict.fromkeys(BUNDLE, ("The cable hangs loose.",)), "held-out": ("The fan is loud. It is old.",)}
AT = "2025-11-03T00:00:00Z"


def edit(op: Any, key: str | None = None, text: str | None = None, **more: Any) -> Operation:
    return Operation(op=op, key=key, text=text, rationale="because", **{"evidence": ("第1组",), **more})


def apply(*operations: Operation, most: int = 3, left: int = 10) -> Applied:
    return apply_operations(START, 12, operations, max_operations=most, cap_left=left, bundle=BUNDLE, tickets=TICKETS)


@pytest.mark.parametrize(
    "operation",
    [
        edit("upsert", "G1", "A rule."),
        edit("upsert", "G2", "look at the CABLE"),  # another experience says so
        edit("upsert"),
        edit("upsert", text="Fail as held-out did."),  # a ticket that was not shown
        edit("upsert", text="The fan is loud."),
        edit("upsert", text="A rule.", evidence=("t-9", "第4组", "第0组")),
        edit("remove"),
        edit("remove", "G1"),
        edit("merge", text="A rule.", merged_from=("G2", "G2", "G1")),
        edit("merge", "G0", "A rule.", merged_from=("G2", "G10")),
        edit("merge", "G2", START["G0"], merged_from=("G2", "G10")),
    ],
)
def test_an_invalid_operation_changes_nothing_and_the_others_stand(operation: Operation) -> None:
    found = apply(operation, edit("remove", "G10"))
    [(index, reason)] = found.rejected
    assert index == 0 and reason
    assert (found.experiences, found.highest) == ({"G0": START["G0"], "G2": START["G2"]}, 12)


def test_budgets_take_the_first_operations_valid_or_not() -> None:
    three = [edit("remove", "G1"), edit("upsert", text="One."), edit("upsert", text="Two.")]
    for budget in ({"most": 2}, {"left": 2}):
        found = apply(*three, **budget)
        assert [index for index, _ in found.rejected] == [0, 2] and "G13" in found.experiences
    last = apply(*(edit("remove", key) for key in START))
    assert [index for index, _ in last.rejected] == [2], "the last experience stays"
