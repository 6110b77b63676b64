"""The closing report as text: what was shown comes first, and text of others cannot act on a terminal."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from measured_book import EVOLVED, book, report, system
from rich.cells import cell_len

from orchestrator.evolve.systems import PLAIN, Book
from orchestrator.report.format import format_cost, wrap
from orchestrator.report.model import final_report, systems_table
from orchestrator.report.statistics import Comparison, JudgedAnswer
from tasks.common.text import escape_control


def answers(tokens: list[int], text: str) -> tuple[JudgedAnswer, ...]:
    return tuple(
        JudgedAnswer(str(i), count, True, f"{text} {i}" * 90, f"\x1b[31mquestion {i}", "", "", is_whole=i < 3)
        for i, count in enumerate(tokens)
    )


def text_of(made: Book) -> str:
    comparison = Comparison("validation set", answers([100, 80, 60, 40], "long"), answers([50, 40, 30, 20], "short"))
    return final_report(report(made), (comparison,), {"Run a": [("cost", "$0.0123 of $1.50")]})


def test_the_first_line_is_what_was_shown_and_the_last_what_to_do() -> None:
    sentences = report().conclusion.sentences
    paragraphs = [paragraph.replace("\n", " ") for paragraph in text_of(book()).split("\n\n")]
    assert (paragraphs[0], paragraphs[-1]) == (sentences[0], sentences[-1])
    text = text_of(book())
    assert all(cell_len(line) <= 100 for line in text.splitlines())
    assert "\x1b" not in text and "\\x1b[31mquestion 0" in text
    assert text.count("- before, ") == text.count("- after, ") == 3 and "right, cut" in text
    assert "  cost  $0.0123 of $1.50" in text


def test_the_table_has_the_winner_and_plain_first_and_twelve_rows_of_many() -> None:
    many = [system(f"{'prompt ' * 12}{i}", "prompt", 0.9, "tr", f"{i}", lost=i) for i in range(20)]
    cut = replace(book().system("first sentence"), validation=None)
    lines = systems_table(report(book(*many, cut)))
    rows = [line for line in lines if line.startswith(("* ", "+ ", "  "))]
    assert rows[1].startswith(f"* {EVOLVED}") and rows[2].startswith(f"  {PLAIN}") and len(rows) == 1 + 12 + 1
    assert all(cell_len(line) <= 100 for line in lines)
    assert rows[1].split()[2:] == ["validation", "23.6", "180", "300", "180", "22.9", "60", "100", "60"]
    assert any(row.startswith("  first sentence") for row in rows)  # what is free is shown also of many
    whole = systems_table(report(book(*many)), most=99)
    assert len(whole) - len(lines) == len(book(*many).systems) - 12 - 1


@settings(deadline=None)
@given(st.text(), st.integers(2, 40))
def test_nothing_that_acts_on_a_terminal_is_left_and_wrapping_loses_nothing(text: str, width: int) -> None:
    shown = escape_control(text, keep_lines=True)
    assert all(character.isprintable() or character == "\n" or character.isspace() for character in shown)
    assert not set(shown) & {"\x1b", "\r", "\x07", "\x9b", "\u202e", "\u2066", "\u2028"}
    assert "".join(wrap(shown, width)).replace(" ", "") == shown.replace(" ", "").replace("\n", "")


def test_a_cost_that_no_server_has_told_is_unknown_and_not_free() -> None:
    assert format_cost(0.0, 0.0) == "free"
    assert format_cost(0.0, 5.0, 0.02) == "unknown of $5.00, up to $0.0200 for calls whose cost is unknown"
    assert format_cost(1.0, 0.0, 0.02) == "$1.00, and up to $0.0200 for calls whose cost is unknown"
