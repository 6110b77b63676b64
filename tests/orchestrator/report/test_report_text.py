"""Text of others on our terminal: it cannot act, and it fits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from orchestrator.report.layout import pad, truncate, wrap
from tasks.escape import escape_control


@settings(deadline=None)
@given(st.text())
def test_nothing_that_acts_on_a_terminal_is_left(text: str) -> None:
    shown = escape_control(text, keep_lines=True)
    assert all(character.isprintable() or character == "\n" or character.isspace() for character in shown)
    assert not set(shown) & {"\x1b", "\r", "\x07", "\x9b", "\u202e", "\u2066", "\u2028"}
    shown.encode("utf-8")


@settings(deadline=None)
@given(st.text(st.characters(categories=("L", "N", "P", "S"))))
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert escape_control(text) == text


def test_an_escape_is_shown_instead_of_sent() -> None:
    assert escape_control("\x1b[31mred\x07") == "\\x1b[31mred\\x07"
    assert escape_control("abc\u202edef") == "abc\\u202edef"
    assert escape_control("\ud800") == "\\ud800"
    assert escape_control("one\r\ntwo\tthree") == "one two    three"
    assert escape_control("one\r\ntwo", keep_lines=True) == "one\ntwo"


@settings(deadline=None)
@given(st.text(), st.integers(2, 40))
def test_wrapped_lines_fit_and_lose_nothing_but_spaces(text: str, width: int) -> None:
    safe = escape_control(text, keep_lines=True)
    lines = wrap(safe, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == safe.replace(" ", "").replace("\n", "")


def test_wide_characters_count_twice() -> None:
    assert wrap("資本的支出", 4) == ["資本", "的支", "出"]
    assert truncate("資本的支出", 5) == "資本…"
    assert pad("資本", 6) == "資本  "


@settings(deadline=None)
@given(st.text(st.characters(categories=("L", "N"))), st.integers(1, 20))
def test_truncated_text_fits(text: str, width: int) -> None:
    truncated = truncate(text, width)
    assert cell_len(truncated) <= width
    assert truncated == text or truncated.endswith("…")
