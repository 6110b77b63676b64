"""Systems of one run against the plain model of another one, on the questions that both were asked."""

from __future__ import annotations

from pathlib import Path

from benchmarks.gpu.pair import against, on_the_test_set, row
from orchestrator.report.measurements import measurement_lines
from orchestrator.report.systems import MeasuredSystem, Measurement

QUESTIONS = tuple(f"q{number}" for number in range(200))


def measured(tokens: int, wrong: int) -> Measurement:
    """All answers have about so many tokens; the first ones are wrong."""
    lengths = tuple(tokens + number % 3 for number in range(len(QUESTIONS)))
    return Measurement(QUESTIONS, lengths, tuple(number >= wrong for number in range(len(QUESTIONS))), 0.5)


def write(folder: Path, *systems: MeasuredSystem) -> Path:
    folder.mkdir()
    (folder / "measurements.jsonl").write_text(measurement_lines(systems))
    return folder


def test_systems_are_measured_by_the_plain_model_of_another_run(tmp_path: Path) -> None:
    plain = MeasuredSystem("none", "plain", "", validation=measured(90, 0), test=measured(99, 20))
    first = write(tmp_path / "first", plain)
    short = MeasuredSystem("g1_pop0", "evolved", "", test=measured(49, 20))
    second = write(tmp_path / "second", MeasuredSystem("none", "plain", "", test=measured(69, 60)), short)
    [own] = on_the_test_set(first, kind="plain")
    worse, better = (against(own, system, "second", 0.03) for system in on_the_test_set(second))
    assert (better["system"], better["n"], better["correct"], better["is_non_inferior"]) == ("g1_pop0", 200, 180, True)
    assert round(better["token_ratio"][0], 3) == 0.5 and better["token_ratio"][2] < 0.51
    assert worse["correctness_difference"][0] == -0.2 and not worse["is_non_inferior"]


def test_all_figures_are_of_the_questions_that_both_were_asked() -> None:
    # Given a plain model that was asked the last half of the questions, and a system whose first answers are wrong
    plain = MeasuredSystem("none", "plain", "", test=measured(99, 0).on(QUESTIONS[100:]))
    short = MeasuredSystem("g1_pop0", "evolved", "", test=measured(49, 110))
    # Then only those answers count that are of the same questions
    found = against(plain, short, "second", 0.03)
    assert (found["n"], found["correct"]) == (100, 90)
    assert row(found)[2:5] == ["100", f"{measured(49, 0).on(QUESTIONS[100:]).mean_tokens:.1f}", "90"]
