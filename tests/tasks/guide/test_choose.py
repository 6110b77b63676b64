"""Votes, the selection without the label, and the bounds of the gate.

The rest follows from the specification: tests/orchestrator/guide/test_guide_spec.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from guide_records import BY_CONFIDENCE, answers, found, ticket

from tasks.guide.choose import TicketSelection, Votes, decide, judge, judged_figures, majority
from tasks.guide.ticket import Verdict


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
