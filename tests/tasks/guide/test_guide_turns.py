"""The prompt as a chat: judged tickets of other subjects, in the form of the one that is asked."""

from __future__ import annotations

from typing import get_args

import pytest

from tasks.guide.demonstrations import BALANCED, STRICT, TurnLanguage, demonstrations
from tasks.guide.turns import TurnForm, quoted_lines, turn_messages
from tasks.guide.verdict_lines import Malformed, parse_three_lines

EXPERIENCES = {"G10": "Fail it.", "G2": "Pass it."}
LANGUAGES: tuple[TurnLanguage, ...] = get_args(TurnLanguage)
each_language = pytest.mark.parametrize("language", LANGUAGES)


@each_language
@pytest.mark.parametrize("form", get_args(TurnForm))
def test_demonstrations_are_turns_with_whole_answers_before_the_ticket(language: TurnLanguage, form: TurnForm) -> None:
    system, *turns = turn_messages(language, "mast", "Whether it {stands}.", EXPERIENCES, '- image_1: "x"', form)
    assert "mast: Whether it {stands}." in system
    asked, answers = turns[::2], turns[1::2]
    assert len(asked) == len(answers) + 1 == 9
    read = [parse_three_lines(answer) for answer in answers]
    shown = demonstrations(language, BALANCED if form == "turns" else STRICT)
    assert [None if isinstance(one, Malformed) else one.verdict for one in read] == [one.verdict for one in shown]
    assert any("不通过" in answer for answer in answers) == (form == "turns_own" and language == "zh")
    lines = ["Experiences:", "[G2]. Pass it.", "[G10]. Fail it.", "", "Ticket:", '- image_1: "x"']
    assert asked[-1].split("\n") == lines


def test_summaries_are_lines_of_their_own() -> None:
    assert quoted_lines([("image_1", 'a "b"'), ("image_2", "c\nd")]).count("\n") == 1
