"""The forms of edits: only what given experiences allow."""

from __future__ import annotations

import pytest

from tasks.guide.critique import critic_schema
from tasks.guide.edit_forms import any_of, edit_forms
from tasks.openai.schema import mismatch

NOTE = {"type": ["string", "null"]}
UPSERT = {"op": "upsert", "key": None, "note": None, "text": "t"}
REMOVE = {"op": "remove", "key": "G1", "note": None}
MERGE = {"op": "merge", "merged_from": ["G0", "G1"], "key": "G0", "note": None, "text": "t"}


@pytest.mark.parametrize(
    ("edit", "keys", "most_merged", "fits"),
    [
        (UPSERT, ["G0"], 3, True), (REMOVE, ["G0", "G1"], 3, True), (MERGE, ["G0", "G1"], 3, True),
        (REMOVE, ["G0"], 3, False), (MERGE, ["G0"], 3, False), (MERGE, ["G0", "G1"], None, False),
        ({**UPSERT, "key": "G1"}, ["G0"], 3, False), ({**REMOVE, "key": "G2"}, ["G0", "G1"], 3, False),
    ],
)  # fmt: skip
def test_an_edit_fits_where_it_can_be_applied(
    edit: dict[str, object], keys: list[str], most_merged: int | None, fits: bool
) -> None:
    form = any_of(edit_forms(keys, {"note": NOTE}, most_merged=most_merged))
    assert (mismatch(edit, form) is None) == fits


def test_the_text_comes_after_what_is_written_before_it() -> None:
    [form] = edit_forms(["G0"], {"note": NOTE}, {"evidence": NOTE})
    assert list(form["properties"]) == ["op", "key", "note", "text", "evidence"]


@pytest.mark.parametrize("edit", [{"op": "remove", "key": "G0", "rationale": None}, {"op": "merge", "rationale": None}])
def test_a_critic_that_is_told_the_experiences_suggests_nothing_else(edit: dict[str, object]) -> None:
    said = {"summary": "s", "critique": "c", "root_cause": None, "issues": None, "uncertainty_note": None}
    assert mismatch({**said, "candidate_ops": [edit]}, critic_schema(9, 9, ["G0"])) is not None
    good = {"op": "upsert", "key": "G0", "rationale": None, "text": "t"}
    assert mismatch({**said, "candidate_ops": [good]}, critic_schema(9, 9, ["G0"])) is None
