"""report.json, front.json, the closing report and the live display: true figures, and no text acts on a terminal."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from types import SimpleNamespace

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measured_book import EVOLVED, ONE_SENTENCE, VECTOR, book, report, system
from pydantic import TypeAdapter
from rich.cells import cell_len

from orchestrator.report import live
from orchestrator.report.format import format_cost, wrap
from orchestrator.report.live import Pace, Snapshot, open_view
from orchestrator.report.model import FrontFile, ReportFile, final_report, front_file
from orchestrator.report.statistics import Comparison
from tasks.common.text import escape_control
from tasks.common.validation import parse_json
from tasks.plan import Evaluations
from tasks.records import JudgedAnswer


def answers(tokens: list[int], text: str) -> tuple[JudgedAnswer, ...]:
    return tuple(
        JudgedAnswer(str(i), count, True, f"{text} {i}" * 90, f"\x1b[31mquestion {i}", "", "", is_whole=i < 3)
        for i, count in enumerate(tokens)
    )


def test_the_first_line_is_what_was_shown_and_the_last_what_to_do() -> None:
    sentences = report().conclusion.sentences
    comparison = Comparison("validation set", answers([100, 80, 60, 40], "long"), answers([50, 40, 30, 20], "short"))
    text = final_report(report(), (comparison,), {"Run a": [("cost", "$0.0123 of $1.50")]})
    paragraphs = [paragraph.replace("\n", " ") for paragraph in text.split("\n\n")]
    assert (paragraphs[0], paragraphs[-1]) == (sentences[0], sentences[-1])
    assert all(cell_len(line) <= 100 for line in text.splitlines())
    assert "\x1b" not in text and "\\x1b[31mquestion 0" in text
    assert text.count("- before, ") == text.count("- after, ") == 3 and "right, cut" in text
    assert "  cost  $0.0123 of $1.50" in text
    # The winner's row has its figures on both sets
    [row] = (line for line in text.splitlines() if line.startswith(f"* {EVOLVED}"))
    assert row.split()[2:] == ["validation", "23.6", "180", "300", "180", "22.9", "60", "100", "60"]


@settings(deadline=None, max_examples=50)
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


def test_a_report_has_one_form_and_the_figures_of_the_answers() -> None:
    written = json.loads(json.dumps(asdict(report()), allow_nan=False))
    jsonschema.validate(written, TypeAdapter(ReportFile).json_schema())
    assert parse_json(ReportFile, json.dumps(written)) == report()
    assert (written["goal"], written["margin"], written["winner"]) == ("shortest", 0.05, EVOLVED)
    assert written["conclusion"]["sentence"] == written["conclusion"]["sentences"][0]
    assert written["conclusion"]["outcome"] == "deploy" and written["conclusion"]["rival"] == "first sentence"
    by_name = {one["name"]: one for one in written["systems"]}
    cut, winner = by_name["max_tokens 24"], by_name[EVOLVED]
    figures = {name: cut["test"][name] for name in ("n", "right", "whole", "correct")}
    assert figures == {"n": 100, "right": 60, "whole": 40, "correct": 24}
    assert (cut["training"], cut["max_tokens"], winner["passed"], cut["passed"]) == (None, 24, True, False)
    answered = book().system(EVOLVED).on("test")
    assert winner["test"]["mean_tokens"] == pytest.approx(sum(answered.tokens) / 100)
    assert winner["deltas"] == [1.5, -0.75, 0.0, -2.75, 0.5]
    for name in ("mean_tokens", "correct"):
        low, high = winner["validation"][f"{name}_interval"]
        assert low < winner["validation"][name] < high
    low, high = winner["validation"]["correct_interval"]  # Wilson's for 180 of 300
    assert (low / 300, high / 300) == (pytest.approx(0.5436, abs=1e-3), pytest.approx(0.6539, abs=1e-3))


def test_the_front_has_what_no_other_beats_on_the_training_set() -> None:
    written = json.loads(json.dumps(asdict(front_file(report()))))
    jsonschema.validate(written, TypeAdapter(FrontFile).json_schema())
    members = written["members"]
    assert [one["name"] for one in members] == ["one sentence: random 3", EVOLVED]
    assert members[1]["deltas"] == [1.5, -0.75, 0.0, -2.75, 0.5]
    assert (members[1]["end"], members[1]["passed"], written["winner"]) == ("sentence", True, EVOLVED)
    assert members[1]["test"]["correct"] == 60 and members[0]["test"] is None
    # What passed and what won can be chosen, also where the training set has put it off the front
    prompt = system(ONE_SENTENCE, "prompt", 0.7, "tr or va", ONE_SENTENCE, lost=12)
    off = report(book(prompt, winner=VECTOR, passed=(ONE_SENTENCE, VECTOR)))
    others = {one.name: one for one in front_file(off).members}
    assert set(others) == {"one sentence: random 3", EVOLVED, ONE_SENTENCE, VECTOR}
    assert others[ONE_SENTENCE].passed and not off.system(VECTOR).is_on_front


SNAPSHOT = Snapshot(
    "quiet-1", 2, 8, "offspring", 6, {"g2_child2_pre": "refused \x1b[31m[bold]thrice"}, 0.71, 0.67, 0.72, 0.65,
    {"gpu": 3, "openai": 1}, 83.0, 130.0, 124, 53120, 0.01, note="stages", progress=(5, 12),
    evaluations=Evaluations(20, 4, 6),
)  # fmt: skip


@pytest.mark.parametrize(
    ("is_terminal", "term", "plain"),
    [(True, "xterm-256color", False), (True, "dumb", False), (False, "xterm", False), (True, "xterm", True)],
)
def test_a_terminal_gets_the_live_display_and_all_else_plain_lines(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, term: str, plain: bool
) -> None:
    monkeypatch.setenv("TERM", term)
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal, raising=False)
    view = open_view(stream, plain=plain)
    view.show(SNAPSHOT)
    view.notify("a worker was lost")
    monkeypatch.setattr(live, "EVERY_S", 0.0)  # nothing was shown for long enough
    view.tick("waiting for the server")
    view.close()
    text, is_live = stream.getvalue(), term == "xterm-256color"
    assert "a worker was lost" in text and "waiting for the server" in text and ("\x1b[?25h" in text) == is_live
    assert "refused \x1b" not in text and "refused \\x1b[31m[bold]thrice" in text


def test_the_time_that_is_left_is_told_by_the_pace_of_this_session_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # A session begins where 100 of 200 are done
    pace, told = Pace(), []
    for second, done in ((0, 100), (30, 109), (30, 110), (60, 150), (90, 200)):
        monkeypatch.setattr(live, "time", SimpleNamespace(monotonic=lambda now=second: 1000.0 + now))
        told.append((pace.left(done, 200), pace.told(done, 200, "rows")))
    assert [left for left, _ in told] == [None, None, 270.0, 60.0, None]
    assert [text.partition(", about ")[2] for _, text in told] == ["", "", "4 min 30 s left", "1 min 00 s left", ""]
    assert told[-1][1] == "200 of 200 rows"
