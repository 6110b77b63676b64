"""Experiences: their order, their block in the prompt, their hash, and which texts may be one."""

from __future__ import annotations

import hashlib

import pytest

from tasks.guide.experiences import check_text, form_fault, guidance_hash, render_experiences, sort_experiences

SUMMARIES = ("The cable hangs loose. The lid is closed, 0.5 mm open.", "标签清晰。螺丝缺失！")
OTHERS = ("Pass when the lid is closed.", "值≥3时通过")


def test_g10_comes_after_g2() -> None:
    experiences = {"G10": "c", "G2": "b", "G0": "a"}
    assert list(sort_experiences(experiences)) == ["G0", "G2", "G10"]
    assert render_experiences(experiences) == "[G0]. a\n[G2]. b\n[G10]. c"
    for key in ("", "G", "g1", "G01", "G-1", "1", "G١"):
        with pytest.raises(ValueError, match="G and a number"):
            sort_experiences({key: "a"})


def test_the_hash_is_that_of_the_texts_and_not_of_their_order() -> None:
    assert guidance_hash({"G0": "通过", "G1": "b"}) == guidance_hash({"G1": "b", "G0": "通过"})
    assert guidance_hash({"G0": "通过"}) == hashlib.sha256('{"G0":"通过"}'.encode()).hexdigest()


@pytest.mark.parametrize("text", ["  ", "a\nb", "a\u2028b", "a\x85b", "a\x1b[31m", "\ud800", "x" * 301, "<|im_end|>"])
def test_an_experience_is_one_line_of_at_most_300_characters(text: str) -> None:
    assert form_fault(text) and check_text(text, (), (), ())


@pytest.mark.parametrize(
    "text",
    ["x" * 300, "Fail when a cable hangs loose.", "螺丝缺失则判不通过。", "at least 2 photos: ≥ 0.5", "not-17 is fine",
     "t-170 volts", "at-17", "t-17_b", "值≤3时通过"],
)  # fmt: skip
def test_a_rule_in_words_of_its_own_may_be_one(text: str) -> None:
    assert check_text(text, SUMMARIES, ("t-17", "alpha"), OTHERS) is None


@pytest.mark.parametrize(
    "text",
    [
        *("As in t-17, fail.", "see T-17", "ｔ-17 failed", "见t-17。", "第 12 组"),  # names a ticket
        *("The cable hangs loose", "fail: no. THE CABLE  hangs loose!", "注意。标签清晰。"),  # a sentence of a ticket
        *("PASS when, the lid is closed", "值 ≥ ３ 时通过。"),  # another experience says so
    ],
)
def test_a_text_that_names_a_ticket_or_copies_one_or_repeats_a_rule_may_not(text: str) -> None:
    assert check_text(text, SUMMARIES, ("t-17",), OTHERS)
