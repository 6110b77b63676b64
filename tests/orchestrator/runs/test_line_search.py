"""The best of a few vectors under one system prompt, and whether it is shown to be better than another."""

from __future__ import annotations

from dataclasses import replace

from simulated_measurer import SimulatedMeasurer
from simulated_run import RUN

from orchestrator.runs.line_search import LineSearch
from tasks.models import Constrained
from tasks.plan import Candidate
from tasks.store.store import Store


def search(store: Store, lost: int) -> LineSearch:
    """A search in which "Be concise." makes the answers a third shorter, and some wrong."""

    def answer(candidate: Candidate, number: int) -> tuple[int, bool]:
        is_concise = candidate.system_prompt == "Be concise."
        return 67 if is_concise else 100, not (is_concise and number < lost and candidate.repeat == 0)

    store.put_run(replace(RUN, objective=Constrained(100, 1)))
    measurer = SimulatedMeasurer(answer, store, training=40)
    return LineSearch(measurer, "Plain.")


def test_of_equal_vectors_the_first_is_the_best(store: Store) -> None:
    found = search(store, lost=0).best_of([(1, 0), (2, 0)], "Plain.")
    assert (found.deltas, found.fitness) == ((1, 0), 1.0)
    assert [answer.tokens for answer in found.answers] == [100] * 40 == [answer.tokens for answer in found.plain]


def test_a_higher_fitness_is_not_yet_shown(store: Store) -> None:
    # Given a sentence that loses one answer of 40, and has the higher fitness
    lossy = search(store, lost=1)
    plain, concise = (lossy.best_of([(0, 0)], prompt) for prompt in ("Plain.", "Be concise."))
    assert concise.fitness > plain.fitness
    # When and then: it is shown to be better where it loses none
    assert not lossy.is_shown_better(concise, plain, tried=1)
    lossless = search(store, lost=0)
    assert lossless.is_shown_better(lossless.best_of([(0, 0)], "Be concise."), plain, tried=1)
