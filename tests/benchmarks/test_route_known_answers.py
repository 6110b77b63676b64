"""What the known answers require of the rates, and that a rate beyond each margin fails."""

from __future__ import annotations

import pytest

from benchmarks.route_known_answers import FRONTIER, RANDOM, Rates, rank_of_real, rates_table, requirements

GOOD = {
    "none": (0.8, 0.1),
    "untrained": (0.1, 0.4),
    **dict.fromkeys(FRONTIER[1:], (0.3, 0.4)),
    "real": (0.05, 0.55),
    "uniform": (0.4, 0.4),
    "ceiling": (0.1, 0.6),
    **dict.fromkeys(RANDOM, (0.4, 0.2)),
}


def rates(**changed: tuple[float, float]) -> Rates:
    return {name: dict.fromkeys(("A", "B", "none"), pair) for name, pair in {**GOOD, **changed}.items()}


def test_rates_within_the_margins_pass() -> None:
    assert [met for _, _, met in requirements({1: rates(), 2: rates()})] == [True] * 5
    assert rank_of_real(rates()) == 1 and rank_of_real(rates(random_3=(0.05, 0.0))) == 2
    assert "ceiling (sees labels)" in rates_table({1: rates()})


@pytest.mark.parametrize(
    ("changed", "failed"),
    [
        ({"none": (0.69, 0.1)}, 0),
        ({"ceiling": (0.41, 0.1)}, 1),
        ({"uniform": (0.2, 0.41)}, 2),
        (dict.fromkeys(RANDOM, (0.2, 0.41)), 3),
        ({"untrained": (0.0, 0.5)}, 4),
    ],
    ids=lambda given: str(given)[:20],
)
def test_a_rate_beyond_a_margin_fails_that_one(changed: dict[str, tuple[float, float]], failed: int) -> None:
    assert [met for _, _, met in requirements({1: rates(**changed)})].index(False) == failed
