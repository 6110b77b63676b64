"""Fitness, as the specification computes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.cpu.score import score
from tasks.models import Fitness

FITNESS = Fitness(lambda_shortness=0.4, lambda_correctness=0.6, shortness_scale=50.0)


def test_the_formula() -> None:
    found = score([40, 60], [True, False], FITNESS)
    assert found.mean_tokens == 50
    assert found.shortness == 0.5
    assert found.correctness == 0.5
    assert found.fitness == pytest.approx(0.4 * 0.5 + 0.6 * 0.5)


@given(st.lists(st.tuples(st.integers(0, 5000), st.booleans()), min_size=1))
def test_fitness_lies_between_nothing_and_the_weights_and_shorter_is_never_worse(
    graded: list[tuple[int, bool]],
) -> None:
    tokens, correct = [t for t, _ in graded], [c for _, c in graded]
    found = score(tokens, correct, FITNESS)
    assert 0 <= found.fitness <= 1
    assert score([t // 2 for t in tokens], correct, FITNESS).fitness >= found.fitness


@pytest.mark.parametrize(("tokens", "correct"), [([], []), ([1], []), ([1, 2], [True])])
def test_what_does_not_match_is_refused(tokens: list[int], correct: list[bool]) -> None:
    with pytest.raises(ValueError, match="cannot be scored"):
        score(tokens, correct, FITNESS)
