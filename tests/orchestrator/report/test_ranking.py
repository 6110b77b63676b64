"""The table of all systems: the best first, the winner marked, within the width."""

from __future__ import annotations

from dataclasses import replace

import pytest
from measured_systems import EVOLVED, ONE_SENTENCE, PLAIN, SHORT_BUT_WRONG, system
from rich.cells import cell_len

from orchestrator.report.assessment import Assessment, assess
from orchestrator.report.ranking import provenance, ranking
from orchestrator.report.systems import MeasuredSystem

SYSTEMS = (PLAIN, ONE_SENTENCE, SHORT_BUT_WRONG, EVOLVED)


def assessed(*systems: MeasuredSystem, test_uses: int = 1) -> Assessment:
    return assess("quiet-1", systems or SYSTEMS, "evolved 1", "one sentence", 0.03, seed=7, test_uses=test_uses)


def rows_of(*systems: MeasuredSystem) -> list[str]:
    return ranking(assessed(*systems))[-1 - len(systems or SYSTEMS) :]


def test_systems_are_ranked_by_fitness_and_the_winner_is_marked() -> None:
    _, *rows = rows_of()
    names = [row[2:21].strip() for row in rows]
    assert names == ["evolved 1", "final answer only", "one sentence", "none"]
    assert [row.startswith("* ") for row in rows] == [True, False, False, False]


def test_a_row_has_kind_tokens_right_answers_and_the_change_with_its_interval() -> None:
    _, best, *_ = rows_of()
    _, name, number, kind, tokens, right, test_tokens, test_right, *change = best.split()
    assert (f"{name} {number}", kind, right, test_right) == ("evolved 1", "evolved", "200", "200")
    assert float(tokens) == pytest.approx(78, abs=3) and float(test_tokens) == pytest.approx(78, abs=3)
    assert " ".join(change) == "-60 % (-61 to -60)"


def test_without_a_test_set_its_columns_are_left_out() -> None:
    head, *rows = rows_of(*(replace(one, test=None) for one in SYSTEMS))
    assert "test" not in head
    assert len({len(row.split()) for row in rows if "evolved" in row}) == 1
    assert "validation set against" in " ".join(ranking(assessed(*(replace(one, test=None) for one in SYSTEMS))))


@pytest.mark.parametrize("width", [72, 80, 120])
def test_long_and_dangerous_names_fit_and_cannot_act(width: int) -> None:
    long = system("leave out \x1b[31m everything that the question did not ask 資本的支出 " * 2, "prompt", 0.7, seed=9)
    lines = ranking(assessed(*SYSTEMS, long), width)
    assert all(cell_len(line) <= width for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_it_says_where_the_search_started_and_how_often_the_test_set_was_asked() -> None:
    text = " ".join(provenance(assessed(test_uses=3)))
    assert 'started from the system prompt "one sentence"' in text
    assert "The test set has been asked for 3 winners so far, this one included." in text
    assert "asked for 1 winner so far, this one included" in " ".join(provenance(assessed()))
    assert "test set" not in " ".join(provenance(assessed(test_uses=0)))


@pytest.mark.parametrize(
    ("winner", "other", "is_said"), [("raised", 0.3, True), ("raised", 0.7, False), ("evolved 1", 0.3, False)]
)
def test_a_start_that_wins_over_vectors_with_a_higher_fitness_is_explained(
    winner: str, other: float, is_said: bool
) -> None:
    raised, rival = system("raised", "vector", 0.5, seed=3), system("with a prompt", "vector", other, seed=4)
    found = assess("quiet-1", (PLAIN, raised, rival, system("evolved 1", "evolved", 0.6)), winner, "none", 0.03, seed=7)
    assert ("some vectors have a higher fitness on validation" in " ".join(provenance(found))) == is_said
