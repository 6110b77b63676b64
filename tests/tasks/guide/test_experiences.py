"""Experiences: their order, their block in the prompt, their hash, and which texts may be one."""

from __future__ import annotations

import dataclasses
import hashlib
import json

import pytest

from tasks.guide.experiences import (
    Guidance,
    GuidanceStep,
    check_experiences,
    check_text,
    edited_guidance,
    experience_number,
    first_guidance,
    form_fault,
    guidance_hash,
    is_consistent,
    normalised,
    render_experiences,
    sort_experiences,
)
from tasks.validation import parse_json

SUMMARIES = ("The cable hangs loose. The lid is closed, 0.5 mm open.", "标签清晰。螺丝缺失！")


def test_g10_comes_after_g2() -> None:
    experiences = {"G10": "c", "G2": "b", "G0": "a"}
    assert list(sort_experiences(experiences)) == ["G0", "G2", "G10"]
    assert render_experiences(experiences) == "[G0]. a\n[G2]. b\n[G10]. c"


@pytest.mark.parametrize("key", ["", "G", "g1", "G01", "G-1", "1", "G1 ", "G١"])
def test_a_key_is_g_and_a_number(key: str) -> None:
    with pytest.raises(ValueError, match="is not G and a number"):
        experience_number(key)


def test_the_hash_is_that_of_the_texts_and_not_of_their_order() -> None:
    assert guidance_hash({"G0": "通过", "G1": "b"}) == guidance_hash({"G1": "b", "G0": "通过"})
    assert guidance_hash({"G0": "通过"}) == hashlib.sha256('{"G0":"通过"}'.encode()).hexdigest()
    assert guidance_hash({"G0": "通过"}) != guidance_hash({"G1": "通过"})


def test_guidance_begins_at_step_0_and_comes_back_from_json() -> None:
    guidance = first_guidance({"G10": "ten", "G2": "two"}, "2025-11-03T00:00:00Z")
    assert (guidance.step, guidance.metadata.highest, list(guidance.experiences)) == (0, 10, ["G2", "G10"])
    digest = guidance_hash({"G2": "two", "G10": "ten"})
    assert guidance.metadata.history == (GuidanceStep(0, digest, None, "2025-11-03T00:00:00Z"),)
    assert parse_json(Guidance, json.dumps(dataclasses.asdict(guidance))) == guidance
    with pytest.raises(ValueError, match="at least one experience"):
        first_guidance({}, "2025-11-03T00:00:00Z")


@pytest.mark.parametrize(
    "text", ["", "  ", "a\nb", "a\rb", "a\u2028b", "a\x85b", "a\x1b[31m", "a\tb", "\ud800", "x" * 301]
)
def test_an_experience_is_one_line_of_at_most_300_characters(text: str) -> None:
    assert form_fault(text)
    assert check_text(text, (), (), ())


@pytest.mark.parametrize(
    "text", ["x" * 300, "Fail when a cable hangs loose.", "螺丝缺失则判不通过。", "at least 2 photos: ≥ 0.5"]
)
def test_a_rule_in_words_of_its_own_may_be_one(text: str) -> None:
    assert check_text(text, SUMMARIES, ("t-17", "alpha"), ("Pass when the lid is closed.",)) is None


@pytest.mark.parametrize(
    "text", ["As in t-17, fail.", "see T-17", "ｔ-17 failed", "见t-17。", "第3组应判不通过", "第 12 组"]
)
def test_a_text_that_names_a_ticket_may_not(text: str) -> None:
    assert check_text(text, SUMMARIES, ("t-17",), ()) == "the text names a ticket"


def test_a_longer_word_is_not_a_tickets_name() -> None:
    for text in ("not-17 is fine", "t-170 volts", "at-17", "t-17_b"):
        assert check_text(text, SUMMARIES, ("t-17",), ()) is None


@pytest.mark.parametrize(
    "text",
    ["The cable hangs loose", "fail: no. THE CABLE  hangs loose!", "螺丝缺失", "注意。标签清晰。",
     "The lid is closed, 0.5 mm open"],
)  # fmt: skip
def test_a_sentence_of_a_ticket_is_not_copied(text: str) -> None:
    assert check_text(text, SUMMARIES, (), ()) == "the text has a sentence of a ticket"


def test_the_same_rule_is_not_stated_twice() -> None:
    others = ("Fail when a cable hangs loose.", "值≥3时通过")
    assert check_text("FAIL when a cable, hangs loose", (), (), others) == "there is an experience with this text"
    assert check_text("值 ≥ ３ 时通过。", (), (), others) == "there is an experience with this text"
    # a sign makes another rule
    assert check_text("值≤3时通过", (), (), others) is None
    assert normalised("Ａ-b c。") == "abc"


def test_an_edit_is_one_more_step_and_what_is_gone_stays_on_record() -> None:
    first = first_guidance({"G2": "two", "G10": "ten"}, "then")
    edited = edited_guidance(first, {"G2": "two", "G11": "eleven"}, 4, "now", "rollback:3")
    assert is_consistent(first) and is_consistent(edited)
    assert [(line.step, line.reflection_id) for line in edited.metadata.history] == [(0, None), (4, "rollback:3")]
    entries = edited.metadata.entries
    assert {key: (entry.removed, entry.updated_at) for key, entry in entries.items()} == {
        "G2": (False, "then"), "G10": (True, "now"), "G11": (False, "now")
    }  # fmt: skip
    assert not is_consistent(dataclasses.replace(edited, experiences={"G2": "two"}))
    low = dataclasses.replace(edited.metadata, highest=10)
    assert not is_consistent(dataclasses.replace(edited, metadata=low))


@pytest.mark.parametrize(
    ("experiences", "reason"),
    [({}, "experiences is empty"), ({"G01": "x"}, "is not G and a number"), ({"G1": "a\nb"}, r"^experiences\.G1: ")],
)
def test_experiences_that_cannot_be_in_a_prompt_are_refused(experiences: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_experiences(experiences)
    check_experiences({"G1": "a rule"})
