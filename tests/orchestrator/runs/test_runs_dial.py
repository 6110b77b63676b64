"""The dial of a finished run: the vectors under its system prompt, as the validation set has them."""

from __future__ import annotations

import dataclasses

from measured_systems import measurement

from orchestrator.report.systems import MeasuredSystem
from orchestrator.runs.dial import make_dial

START = MeasuredSystem("concise", "prompt", "Be concise.", validation=measurement(1.0))
SHORT = MeasuredSystem("g1", "evolved", "Be concise.", (1.0, -1.0), measurement(0.4, lost=40))
MIDDLE = MeasuredSystem("g2", "evolved", "Be concise.", (0.5, 0.25), measurement(0.7, lost=10))


def test_the_prompt_without_deltas_is_the_zero_vector() -> None:
    dial = make_dial("ab" * 8, SHORT, START, [SHORT, MIDDLE])
    assert dial is not None
    assert [(knot.name, knot.deltas) for knot in dial.knots] == [
        ("concise", (0.0, 0.0)),
        ("g2", (0.5, 0.25)),
        ("g1", (1.0, -1.0)),
    ]
    assert [knot.share_right for knot in dial.knots] == [200 / 300, 190 / 300, 160 / 300]
    assert (dial.clustering, dial.system_prompt, dial.default) == ("ab" * 8, "Be concise.", SHORT.deltas)


def test_a_vector_that_is_shorter_and_as_often_right_leaves_nothing_to_dial() -> None:
    best = dataclasses.replace(SHORT, validation=measurement(0.4))
    assert make_dial("ab" * 8, best, START, [best, MIDDLE]) is None


def test_a_vector_that_was_stopped_early_is_left_out() -> None:
    stopped = dataclasses.replace(MIDDLE, is_stopped=True)
    dial = make_dial("ab" * 8, SHORT, START, [SHORT, stopped])
    assert dial is not None and [knot.name for knot in dial.knots] == ["concise", "g1"]
