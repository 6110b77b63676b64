"""Which measured vectors are on the dial, and what lies between them."""

from __future__ import annotations

import dataclasses
import json

import pytest

from tasks.dial import Dial, Knot, Measured, make_knots
from tasks.validation import parse_json

ZERO = Measured("zero", (0.0, 0.0), 100.0, 0.70)
MIDDLE = Measured("middle", (1.0, -1.0), 70.0, 0.65)
SHORT = Measured("short", (4.0, -2.0), 20.0, 0.40)
KNOTS = make_knots([SHORT, ZERO, MIDDLE])
DIAL = Dial("ab" * 8, "", MIDDLE.deltas, KNOTS)


def test_the_longest_is_0_the_shortest_is_1_and_the_others_stand_where_their_tokens_do() -> None:
    assert [(knot.name, knot.dial) for knot in KNOTS] == [("zero", 0.0), ("middle", 0.375), ("short", 1.0)]
    assert [knot.mean_tokens for knot in KNOTS] == [100.0, 70.0, 20.0]


@pytest.mark.parametrize(
    "beaten",
    [
        Measured("longer and as many right", (9.0, 9.0), 80.0, 0.65),
        Measured("longer and fewer right", (9.0, 9.0), 80.0, 0.60),
        Measured("as long and fewer right", (9.0, 9.0), 70.0, 0.60),
        Measured("equal", (9.0, 9.0), 70.0, 0.65),
        Measured("longest", (9.0, 9.0), 120.0, 0.70),
    ],
)
def test_what_another_beats_is_left_out(beaten: Measured) -> None:
    assert make_knots([ZERO, MIDDLE, SHORT, beaten]) == KNOTS


def test_one_vector_that_beats_all_others_gives_no_dial() -> None:
    assert make_knots([ZERO, Measured("best", (1.0, 1.0), 30.0, 0.7)]) == ()
    assert make_knots([ZERO]) == make_knots([]) == ()


def test_between_two_knots_each_delta_and_the_tokens_are_interpolated() -> None:
    assert DIAL.deltas_at(0.1875) == pytest.approx((0.5, -0.5))
    assert DIAL.dial_of(85.0) == pytest.approx(0.1875)
    assert DIAL.dial_of(45.0) == pytest.approx((1 + 0.375) / 2)
    assert [DIAL.deltas_at(knot.dial) for knot in KNOTS] == [knot.deltas for knot in KNOTS]
    assert [DIAL.dial_of(knot.mean_tokens) for knot in KNOTS] == [knot.dial for knot in KNOTS]


def test_beyond_its_ends_the_dial_stays_at_them() -> None:
    assert (DIAL.deltas_at(-1), DIAL.deltas_at(2)) == (ZERO.deltas, SHORT.deltas)
    assert (DIAL.dial_of(1e9), DIAL.dial_of(1)) == (0.0, 1.0)


def test_a_dial_survives_its_document_and_its_hash_covers_all_of_it() -> None:
    document = json.loads(json.dumps(DIAL.document()))
    assert document.pop("front") == DIAL.front
    assert parse_json(Dial, json.dumps(document)) == DIAL
    moved = dataclasses.replace(DIAL, knots=(KNOTS[0], dataclasses.replace(KNOTS[1], deltas=(1.0, -1.5)), KNOTS[2]))
    assert len({DIAL.front, moved.front, dataclasses.replace(DIAL, system_prompt="x").front}) == 3
    assert isinstance(KNOTS[0], Knot)
