"""The closing report, read as its reader would."""

from __future__ import annotations

import dataclasses
import random

from measured_systems import EVOLVED, ONE_SENTENCE, PLAIN, SHORT_BUT_WRONG, system
from rich.cells import cell_len

from orchestrator.report.assessment import assess
from orchestrator.report.statistics import Comparison, JudgedAnswer
from orchestrator.report.summary import FinalReport, ResourceUsage, final_report
from tasks.plan import Evaluations


def answers(tokens: list[int], rights: str) -> tuple[JudgedAnswer, ...]:
    return tuple(
        JudgedAnswer(str(i), count, right == "+", "", "", "", "")
        for i, (count, right) in enumerate(zip(tokens, rights, strict=True))
    )


REPORT = FinalReport(
    run="quiet-1",
    generations=3,
    best_node="g2_child1_mut",
    deltas={"10": -1.0, "2": 0.5, "0": 4.0, "1": 0.0},
    descriptions={"0": "end of turn", "1": "digits", "2": "function words, " * 20, "10": "\x1b[31mfinance"},
    comparisons=(
        Comparison("training set", answers([100, 80, 60], "+-+"), answers([50, 40, 30], "++-"), 0.4, 0.55),
        Comparison("validation set", answers([10, 10], "++"), answers([10, 10], "++"), 0.7, 0.7),
    ),
    reflector="rules of the embedded endpoint",
    judge="gpt-x",
    usage=ResourceUsage(192.0, Evaluations(20, 4, 6), 31, 5000, 40213, 128, 900, 0.0123, 1.5, 0.05),
    files=(("best processor", "outputs/embedded/processor_best.py"),),
    commands=(("read the answers", "orchestrator answers quiet-1"),),
)


def lines_of(report: FinalReport, width: int = 80) -> list[str]:
    return final_report(report, random.Random(0), width).splitlines()


def test_clusters_come_in_their_order_with_value_bar_and_description() -> None:
    rows = [line for line in lines_of(REPORT) if "│" in line]
    assert [row.split()[0] for row in rows] == ["0", "1", "2", "10"]
    bars = [row.split("│") for row in rows]
    assert bars[0][1].startswith("█████████") and "+4.000" in bars[0][0]
    assert "█" not in rows[1]
    assert bars[3][0].endswith("██") and "-1.000" in bars[3][0]
    assert "end of turn" in rows[0]


def test_rows_are_aligned_fit_the_width_and_cannot_act() -> None:
    for width in (60, 80, 120):
        rows = [line for line in lines_of(REPORT, width) if "│" in line]
        assert len({row.index("│") for row in rows}) == 1
        assert all(cell_len(row) <= width for row in rows)
    assert "\x1b" not in "".join(rows) and "\\x1b[31mfinance" in rows[3]


def test_each_set_is_compared_in_pairs() -> None:
    text = "\n".join(lines_of(REPORT))
    training, validation = text.split("Against the plain model, ")[1:]
    assert training.startswith("training set (3 questions)")
    assert "80.0 -> 40.0 an answer (-50.0 %)" in training
    assert "mean change -40.0, 95 % interval -50.0 to -30.0" in training
    assert "2 -> 2 of 3" in training and "gained 1, lost 1: could well be chance (p = 1.00)" in training
    assert "0.4000 -> 0.5500 (+0.1500)" in training
    assert validation.startswith("validation set (2 questions)") and "no answer changed sides" in validation


def test_it_says_who_judged_what_it_took_and_where_things_are() -> None:
    text = "\n".join(lines_of(REPORT))
    assert "3 generations, search time 3 min 12 s" in text
    assert "rules of the embedded endpoint" in text and "gpt-x" in text
    assert "evaluations  20 computed, 4 from the cache, 6 carried over" in text and "generated    5,000 tokens" in text
    assert "31, 40,213 tokens in (128 cached), 900 out" in text
    assert "$0.0123 of $1.50, and up to $0.0500 for calls whose outcome is unknown" in text
    assert "outputs/embedded/processor_best.py" in text and "orchestrator answers quiet-1" in text


def test_a_run_that_changed_nothing_and_has_no_validation_set_is_still_reported() -> None:
    # given zero deltas and a single question whose answer had no tokens at all
    nothing = Comparison("training set", answers([0], "-"), answers([0], "-"))
    report = dataclasses.replace(REPORT, deltas={"0": 0.0}, comparisons=(nothing,), files=(), commands=())
    # when and then
    text = "\n".join(lines_of(report))
    assert "(1 question)" in text and "0.0 -> 0.0 an answer\n" in text
    assert "validation" not in text and "Files" not in text and "Next" not in text


def test_the_same_seed_prints_the_same_report() -> None:
    assert final_report(REPORT, random.Random(3)) == final_report(REPORT, random.Random(3))


def test_unusable_replies_of_the_reflector_are_counted_where_there_are_any() -> None:
    assert "unusable" not in "\n".join(lines_of(REPORT))
    usage = dataclasses.replace(REPORT.usage, skipped_mutations=2, merge_fallbacks=1)
    text = "\n".join(lines_of(dataclasses.replace(REPORT, usage=usage)))
    assert (
        "2 mutations skipped, 1 merge kept the first parent's scratchpad: no reply of the reflector was usable" in text
    )


def test_the_first_lines_say_what_was_shown_where_other_systems_were_measured() -> None:
    systems = (PLAIN, ONE_SENTENCE, SHORT_BUT_WRONG, EVOLVED)
    assessment = assess("quiet-1", systems, "evolved 1", "one sentence", 0.03, seed=7, test_uses=2)
    lines = lines_of(dataclasses.replace(REPORT, assessment=assessment))
    headline = " ".join(lines[: lines.index("")])
    assert headline == assessment.conclusion.headline
    assert lines[lines.index("") + 1].startswith("Run quiet-1: 3 generations")
    text = "\n".join(lines)
    assert "- It beats 1 of 2 rivals" in text and "All systems on 300 validation and 300 test" in text
    assert "asked for 2 winners so far" in " ".join(text.split())
    assert all(cell_len(line) <= 80 for line in lines if not line.startswith("  cost"))


def test_a_winner_that_is_worse_is_the_first_thing_to_read() -> None:
    worse = system("evolved 1", "evolved", 0.6, lost=60)
    assessment = assess("quiet-1", (PLAIN, worse), "evolved 1", "none", 0.03, seed=7)
    lines = lines_of(dataclasses.replace(REPORT, assessment=assessment))
    assert lines[0].startswith("The evolved vector is worse than the plain model")


def test_without_other_systems_the_report_begins_with_the_run() -> None:
    assert lines_of(REPORT)[0].startswith("Run quiet-1")
