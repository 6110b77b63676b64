"""Three lines are read by their form alone; seeds; votes, which candidate is chosen, and the bounds of the gate.

The rest follows from the specification: tests/orchestrator/guide/test_guide_mission.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from guide_records import BY_CONFIDENCE, answers, found, ticket
from hypothesis import given
from hypothesis import strategies as st

from tasks.guide.choose import TicketSelection, Votes, decide, judge, judged_figures, majority
from tasks.guide.ticket import (
    DecodeCell,
    Verdict,
    first_seed,
    parse_confidence,
    parse_three_lines,
    parse_verdict,
    three_lines_regex,
)


def test_three_lines_are_read_whatever_the_space_and_case() -> None:
    plain = "Verdict: fail\nReason: 图2: the lid is open\nConfidence: 0.85"
    wanted = ("fail", "图2: the lid is open", 0.85)
    assert parse_three_lines(plain) == wanted
    assert parse_three_lines(f"\r\n  {plain}  \r\n\r\n".replace("\n", "\r\n\t \r\n")) == wanted
    spaced = "VERDICT ： 未 通 过。\nreason：图2: the lid is open\nConFidence:85 %"
    assert parse_three_lines(spaced) == wanted


def test_a_verdict_is_a_whole_word_of_a_fixed_set() -> None:
    passing = ["pass", "PASS", "Pass.", "ｐａｓｓ！", "通过", "通过。", "通 过！", " p a s s ! "]
    failing = ["fail", "FAIL!", "不通过", "未通过", "不通过。", "ＦＡＩＬ．", "未 通 过"]
    others = [
        *("", ".", "passed", "not pass", "pass/fail", "不不通过", "没通过", "不合格", "通过了", "failed", "pass!!"),
        *("*pass*", "pass (0.9)", "unpass", "ok", "true", "p\u0430ss"),  # the last has a Cyrillic letter
    ]
    for texts, verdict in ((passing, "pass"), (failing, "fail"), (others, None)):
        assert {parse_verdict(text) for text in texts} == {verdict}


def test_a_confidence_is_a_share_or_a_percentage() -> None:
    read = {
        "0": 0, "1": 1, "1.0": 1, "0.25": 0.25, ".5": 0.5, "1.": 1, "0%": 0, "1%": 0.01, "0.5%": 0.005, "100 %": 1,
        "2": 0.02, "90": 0.9, "100": 1, "000.5": 0.5,
    }  # fmt: skip
    assert {text: parse_confidence(text) for text in read} == read
    others = (
        "1.5 1.01 2.0 90.5 101 100.1% -0.1 +0.5 nan NaN inf high 0,9 1e-1 9/10 ０.９ ９０ 90％ % . 0.9. 0.9%% ½ 1_0 0x1"
    )
    assert {parse_confidence(text) for text in ("", "0.9 (high)", "9" * 5000, *others.split())} == {None}


def test_what_is_not_three_lines_is_malformed() -> None:
    for text in (
        "Verdict: pass",
        "Verdict: pass\nReason: a\nConfidence: 1\nThanks!",
        "Verdict: pass\nReason: a\u2028b\nConfidence: 1",
        "Reason: a\nVerdict: pass\nConfidence: 1",
        "**Verdict:** pass\nReason: a\nConfidence: 1",
        "Verdict: pass\nReaſon: a\nConfidence: 1",
        "Verdict: pass\nReason: \u3000\nConfidence: 1",
        "Verdict: maybe\nReason: a\nConfidence: 1",
        "Verdict: pass\nReason: a\nConfidence: sure",
    ):
        with pytest.raises(ValueError):
            parse_three_lines(text)


ENFORCED = [st.tuples(st.just(most), st.from_regex(three_lines_regex(most), fullmatch=True)) for most in (53, 128, 512)]


@given(st.one_of(ENFORCED))
def test_all_that_a_servers_grammar_lets_through_is_read_and_is_not_cut(answer: tuple[int, str]) -> None:
    most, text = answer
    assert 1 <= len(parse_three_lines(text)[1]) <= 160
    assert len(text.encode()) < most, "a token has one byte at least, and the end of the turn is one token"


def test_without_a_seed_run_epoch_ticket_and_cell_each_make_another_one() -> None:
    warm = DecodeCell(0.8, 0.95, 64)
    ways: list[tuple[int, int | None, str, int]] = [
        (1, 1, "a", 0), (2, 1, "a", 0), (1, 2, "a", 0), (1, 1, "b", 0), (1, 1, "a", 1), (1, None, "a", 0)
    ]  # fmt: skip
    seeds = [first_seed(warm, *way) for way in ways]
    assert len(set(seeds)) == len(ways) and seeds == [first_seed(warm, *way) for way in ways]
    assert all(0 <= seed < 2**31 - 2**16 for seed in seeds), "the largest sample's seed fits in 31 bits"
    # a cell's own seed is that of every epoch, and of no preview
    own = [first_seed(dataclasses.replace(warm, seed=17), *way) for way in ways]
    assert own[:-1] == [17] * 5 and own[-1] not in (17, seeds[-1])


def test_a_tie_of_votes_goes_to_fail_and_a_malformed_answer_has_none() -> None:
    assert found(ticket("pass"), ("pass", 1.0), ("fail", 0.1), None).label_free == TicketSelection(1, "fail", False)
    nothing = found(ticket("fail"), None, None)
    assert nothing.label_first == nothing.label_free == TicketSelection(None, None, False)
    assert [majority(votes) for votes in ([None], ["pass", None], ["pass", "fail"])] == [None, "pass", "fail"]


def test_among_equal_verdicts_the_tie_break_then_the_signals_then_the_order_decide() -> None:
    given = answers(("pass", 0.5), ("fail", 0.9), ("pass", 0.9), ("pass", 0.9))
    by_heat = dataclasses.replace(BY_CONFIDENCE, tie_break="temperature")
    sure = dataclasses.replace(by_heat, weights={"confidence": 1.0}, grid=[BY_CONFIDENCE.grid[0]] * 2)
    assert [judge(ticket(), given, rule).label_free.candidate for rule in (BY_CONFIDENCE, by_heat, sure)] == [2, 0, 2]


def tickets(*outcomes: tuple[Verdict, int, int]) -> list[Votes]:
    """One ticket for each (label, right candidates, wrong candidates)."""
    other: dict[Verdict, Verdict] = {"pass": "fail", "fail": "pass"}
    return [Votes(label, (*[label] * right, *[other[label]] * wrong)) for label, right, wrong in outcomes]


def outcome(before: Sequence[Votes], after: Sequence[Votes], **bounds: float) -> str:
    given = {"apply_if_delta": 0.02, "min_probability": 0.0, "max_false_pass_rise": 0.0, "seed": 5, **bounds}
    return decide(before, after, **given).reason  # type: ignore[arg-type]  # the seed is a whole number


def test_exactly_each_bound_is_enough() -> None:
    # given 50 tickets with one candidate each, of which one becomes right: 1/50, which no float is
    for count, bound in ((50, 0.02), (10, 0.1), (100, 0.01)):
        before = tickets(*[("pass", 0, 1)] * count)
        after = tickets(("pass", 1, 0), *[("pass", 0, 1)] * (count - 1))
        assert outcome(before, after, apply_if_delta=bound) == "applied"
        assert outcome(before, after, apply_if_delta=bound + 1e-9) == "uplift"
    before = tickets(*[("pass", 2, 6)] * 12, *[("fail", 8, 0)] * 4)
    after = tickets(*[("pass", 8, 0)] * 12, *[("fail", 8, 0)] * 3, ("fail", 1, 7))
    assert outcome(before, after, max_false_pass_rise=0.25) == "applied"
    assert outcome(before, after, max_false_pass_rise=0.24) == "false_pass"


def test_a_model_that_passes_everything_is_as_good_as_a_coin_and_a_missing_verdict_is_wrong() -> None:
    names = ("right", "accuracy", "balanced_accuracy", "false_pass_rate")
    for judged, wanted in (
        ([("pass", "pass")] * 30 + [("fail", "pass")] * 10, (30, 0.75, 0.5, 1.0)),
        ([("pass", "pass"), ("pass", "fail"), ("fail", None)], (1, 1 / 3, 1 / 4, 0.0)),
        ([], (0, None, None, None)),
    ):
        figures = judged_figures(judged)  # type: ignore[arg-type]
        assert tuple(figures[name] for name in names) == wanted
