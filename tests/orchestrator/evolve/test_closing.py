"""After a search: one front of all systems, the order, the test on the validation set, and the test set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from simulated_measurer import Reply, SimulatedMeasurer, evolve_settings

from orchestrator.evolve.closing import Closing
from orchestrator.evolve.records import Individual
from orchestrator.evolve.systems import PLAIN, Arm, Book, System, measurement_of, read_book
from orchestrator.runs.folder import OutputFolder
from tasks.plan import Candidate
from tasks.store import keys
from tasks.store.store import Store

PROMPT = "Be concise."
ARMS = (Arm(PLAIN, "", "clusters of plain"), Arm("concise", PROMPT, "clusters of concise"))
SETS = {"training": 60, "ordering": 200, "validation": 300, "test": 80, "everyday": 30}


class World:
    """The plain model answers in 80 tokens, and 60 % of its answers are right.  "concise" halves the tokens.

    A first delta of d saves 10 d tokens, a second one of h spoils h % of the answers, all others spoil half:
    a random vector is worth nothing.  `spoils` is the share that is spoilt beside that.
    """

    def __init__(self, folder: Path, store: Store) -> None:
        self.measurer = SimulatedMeasurer(self._respond, store, **SETS)
        self.spoils: Callable[[Candidate], float] = lambda candidate: 0.0
        self.output = OutputFolder(folder)
        self.settings = evolve_settings(margin=0.05)
        self.closing = Closing(self.measurer, self.settings, self.output)
        self.order_when_validated: list[object] = []
        self.uses_when_tested: list[int] = []

    def _respond(self, candidate: Candidate, question: int) -> Reply:
        if candidate.examples == "validation" and question == 0:
            self.order_when_validated.append(read_book(self.output).order)
        if candidate.examples == "test" and question == 0:
            self.uses_when_tested.append(len(self.measurer.store.redis.keys(keys.test_uses_key("*"))))
        tokens, harm = 80.0, self.spoils(candidate)
        if candidate.system_prompt == PROMPT:
            tokens /= 2
        if candidate.deltas:
            tokens -= 10 * candidate.deltas[0]
            harm += abs(candidate.deltas[1]) / 100 + 0.5 * any(candidate.deltas[2:])
        if candidate.max_tokens:
            tokens, harm = min(tokens, float(candidate.max_tokens)), 0.5
        count = len(self.measurer.examples[candidate.examples])
        right = question % 10 < 6 and question >= round(harm * count / 0.6)
        return Reply(max(1, round(tokens)), right)

    def book(self) -> Book:
        """What is known after the search is prepared."""
        known = [
            System(PLAIN, "plain", ""),
            System("concise", "prompt", PROMPT, arm="concise"),
            System("plain: end +1", "vector", "", PLAIN, (1.0, 0.0, *ZEROS), ARMS[0].clustering),
        ]
        return Book(cap=96, arms=ARMS, systems=tuple(self.measured(one) for one in known))

    def measured(self, one: System) -> System:
        return one.measured("training", measurement_of(self.measurer._answers(one.candidate("training"))))

    def individual(self, node: str, arm: str, first: float, second: float = 0.0) -> Individual:
        deltas = (first, second, *ZEROS)
        one = System(node, "evolved", PROMPT if arm == "concise" else "", arm, deltas)
        tokens, correct = self.measured(one).on("training").point
        return Individual(node, 0, arm, 0.5, tokens, correct, {str(i): delta for i, delta in enumerate(deltas)})

    def conclude(self, book: Book, *individuals: Individual) -> Book:
        """After as many generations as there are individuals."""
        return self.closing.conclude(book, individuals, len(individuals))

    def asked(self, plan: str) -> list[Candidate]:
        return [candidate for name, candidates in self.measurer.asked if name == plan for candidate in candidates]


ZEROS = (0.0,) * 8


@pytest.fixture
def world(tmp_path: Path, store: Store) -> World:
    return World(tmp_path, store)


def test_individuals_of_all_arms_and_as_many_random_vectors_enter_one_front(world: World) -> None:
    found = [
        world.individual("g0_pop0", PLAIN, 2.0), world.individual("g0_pop1", PLAIN, 2.0),  # the same deltas
        world.individual("g1_pop0", "concise", 3.0, 20.0), world.individual("g2_pop0", "concise", 2.0, 2.0),
        world.individual("g3_pop0", PLAIN, 3.0, 40.0),  # beaten by "concise"
    ]  # fmt: skip
    book = world.conclude(world.book(), *found)
    evolved = book.of_kind("evolved")
    assert [(one.name, one.arm, one.system_prompt, one.clustering) for one in evolved] == [
        ("g1_pop0", "concise", PROMPT, "clusters of concise"), ("g2_pop0", "concise", PROMPT, "clusters of concise")
    ]  # fmt: skip
    drawn = world.asked("random")
    assert [(one.system_prompt, one.clustering) for one in drawn] == [
        *[("", "clusters of plain")] * 2, *[(PROMPT, "clusters of concise")] * 2
    ]  # fmt: skip
    assert all(len(one.deltas) == 10 and one.deltas[9] == 0.0 for one in drawn)  # that no answer used is pinned
    # None is on the front; the best one is there to be compared with
    [best] = book.of_kind("random")
    answered = (measurement_of(world.measurer._answers(one)) for one in drawn)
    assert best.ordering and best.on("training") == max(answered, key=lambda one: (one.point.correct, -one.mean_tokens))


def test_where_nothing_is_shown_the_plain_model_stays_and_the_first_member_is_named(world: World) -> None:
    world.spoils = lambda one: 0.2 if one.examples == "validation" and (one.deltas or one.system_prompt) else 0.0
    book = world.conclude(world.book(), world.individual("g0_pop0", "concise", 2.0, 2.0))
    assert (book.passed, book.winner) == ((), PLAIN)
    assert book.order is not None and book.contender.name == book.order[0].name == "concise"
    # No validation question is spent on what comes after the first that is not shown
    assert len(book.order) > 1 and [one.system_prompt for one in world.asked("validation")] == ["", PROMPT]
    # Its rivals are measured at its length; the test set is asked nothing of it and of them
    assert [one.max_tokens for one in book.of_kind("cut")] == [40, 0]
    assert all(one.ordering and one.validation for one in book.of_kind("cut"))
    compared = world.closing.comparisons(book)
    assert [one.name for one in compared] == ["training set", "ordering set", "validation set"]
    of_test = [one for _, asked in world.measurer.asked for one in asked if one.examples == "test"]
    assert [(one.system_prompt, one.deltas) for one in of_test] == [("", ())]
    assert not book.having("everyday")


def test_the_order_is_on_disk_before_the_validation_set_and_the_test_set_is_asked_once_and_last(world: World) -> None:
    book = world.conclude(world.book(), individual := world.individual("g0_pop0", "concise", 2.0))
    assert book.order and world.order_when_validated
    assert all(order == book.order for order in world.order_when_validated)
    # The front is ordered by questions that no fitness has used
    assert {one.examples for one in world.asked("ordering")} == {"ordering"}
    plans = [(name, {one.examples for one in candidates}) for name, candidates in world.measurer.asked]
    assert plans[-3:] == [("test", {"test"}), ("rivals", {"ordering", "test"}), ("everyday", {"everyday"})]
    assert not any("test" in sets for _, sets in plans[:-3])
    # A use is counted before an answer is known
    assert world.uses_when_tested and all(uses == SETS["test"] for uses in world.uses_when_tested)
    assert book.winner == "g0_pop0"
    # Its rivals are what is free in every engine, its own system prompt among them
    assert [one.name for one in book.having("test")] == [PLAIN, "concise", "g0_pop0", "max_tokens 20", "first sentence"]
    assert [one.name for one in book.having("everyday")] == [PLAIN, "g0_pop0"]
    assert book.test_uses == 1
    stop = book.system("first sentence")
    assert stop.system_prompt == "" and stop.deltas[0] > 100 and not any(stop.deltas[1:])
    # What is on disk is not done again: it was written before the test set
    done = len(world.measurer.asked)
    assert world.conclude(read_book(world.output), individual) == book
    assert [name for name, _ in world.measurer.asked[done:]] == ["test", "rivals", "everyday"]
    # A whole book asks nothing more, and the same use of the test set counts once
    done = len(world.measurer.asked)
    assert world.conclude(book, individual).test_uses == 1 and len(world.measurer.asked) == done


def test_more_generations_choose_once_more_and_say_so(world: World) -> None:
    book = world.conclude(world.book(), first := world.individual("g0_pop0", "concise", 1.0))
    done = len(world.measurer.asked)
    again = world.conclude(book, first, world.individual("g1_pop0", "concise", 3.0))
    assert (book.winner, again.winner, again.rounds) == ("g0_pop0", "g1_pop0", 2)
    assert read_book(world.output).winner == "g1_pop0"
    # The test questions are not unseen by the second choice
    assert (book.test_uses, again.test_uses) == (1, 2)
    # What is known is not asked again
    asked = [
        {
            (one.examples, one.system_prompt, one.deltas, one.max_tokens)
            for _, plan in plans
            for one in plan
            if not one.repeat
        }
        for plans in (world.measurer.asked[:done], world.measurer.asked[done:])
    ]
    assert asked[1] and not asked[0] & asked[1]
    # A longer search is compared with the random vectors of the shorter one, and more
    assert len({one.deltas for one in world.asked("random")}) == 2


def test_without_a_validation_set_the_plain_model_stays_and_rivals_answer_the_questions_that_order(
    world: World,
) -> None:
    world.measurer.examples = {"training": world.measurer.examples["training"], "validation": [], "test": []}
    book = world.conclude(world.book(), world.individual("g0_pop0", "concise", 2.0))
    assert (book.winner, book.passed, book.contender.name) == (PLAIN, (), "g0_pop0")
    assert not book.having("validation") and not book.having("test") and not book.having("ordering")
    assert all(one.training for one in book.of_kind("cut"))
