"""Which vectors are asked the validation set after a search, and which one wins there."""

from __future__ import annotations

from pathlib import Path

from simulated_measurer import SimulatedMeasurer
from simulated_run import RUN

from orchestrator.optimisers.base import Best
from orchestrator.runs.finalists import (
    Evaluation,
    finalists,
    measure_finalists,
    pareto_front,
    read_evaluations,
    with_best,
)
from tasks.models import Fitness
from tasks.plan import Candidate
from tasks.store.store import Store

SHORT = Evaluation("g1_pop0", 1, (3.0,), 0.60, 20.0, 0.5)
MIDDLE = Evaluation("g1_pop1", 1, (2.0,), 0.80, 40.0, 0.7)
DOMINATED = Evaluation("g1_pop2", 1, (1.0,), 0.75, 50.0, 0.6)
LONG = Evaluation("g0_pop0", 0, (0.0,), 0.70, 90.0, 0.8)
ALL = (LONG, SHORT, MIDDLE, DOMINATED)


def test_the_front_is_what_no_other_beats_in_tokens_without_fewer_right_answers() -> None:
    assert pareto_front(ALL) == [SHORT, MIDDLE, LONG]
    equal = Evaluation("g2_pop0", 2, (5.0,), 0.6, 20.0, 0.5)
    assert pareto_front([SHORT, equal]) == [SHORT], "of equals the first"


def test_the_search_s_own_best_comes_first_then_the_front_then_the_rest() -> None:
    assert finalists(ALL, DOMINATED.deltas) == [DOMINATED, MIDDLE, LONG, SHORT]
    assert finalists(ALL, MIDDLE.deltas) == [MIDDLE, LONG, SHORT, DOMINATED]


def test_the_search_s_own_best_is_a_finalist_though_no_line_of_the_file_has_it(tmp_path: Path) -> None:
    # given a folder of which only the state is left, or a judge that has scored the best alone
    assert read_evaluations(tmp_path / "lost.jsonl") == []
    best = Best((7.0,), "", 0.9)
    # when and then
    known = with_best(ALL, best, 3)
    assert finalists(known, best.deltas) == [known[-1], MIDDLE, LONG, SHORT]
    assert (known[-1].node, known[-1].deltas, known[-1].generation) == ("best so far", (7.0,), 3)
    assert pareto_front(known) == [SHORT, MIDDLE, LONG]
    assert with_best(ALL, Best(SHORT.deltas, "", 0.9), 3) == list(ALL)


def test_finalists_can_be_measured_more_than_once(store: Store) -> None:
    # Given a vector that is lucky once, and one that is always good
    def respond(candidate: Candidate, number: int) -> tuple[int, bool]:
        lucky = candidate.deltas == (3.0,) and candidate.repeat == 0
        return (10 if lucky else 80) if candidate.deltas == (3.0,) else 40, True

    measurer = SimulatedMeasurer(respond, store, validation=4)
    store.put_run(RUN)
    lucky, good = measure_finalists(measurer, [SHORT, MIDDLE], "validation", Fitness(0.4, 0.6, 50), 3, repeats=2)
    assert lucky.validation is not None and good.validation is not None
    assert lucky.validation.mean_tokens == 10 and [one.mean_tokens for one in lucky.repeats] == [80, 80]
    assert lucky.validation.fitness > good.validation.fitness
    [(_, candidates)] = measurer.asked
    assert [(c.deltas, c.repeat) for c in candidates] == [(v, i) for v in ((3.0,), (2.0,)) for i in range(3)]
