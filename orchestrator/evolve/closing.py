"""After the last generation: one front of all systems, their order, the test on the validation set, the test set.

The order of the steps keeps the figures honest.  The front is made on training questions.  Its members are ordered on
a part of them that no fitness used, and the order is on disk before the validation set is asked; each member is then
tested in turn (`orchestrator.evolve.choice`).  The test set is asked last, when nothing is left to choose.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.evolve.choice import choose, order_members, passed, test_members
from orchestrator.evolve.front import WORTH, front, halve
from orchestrator.evolve.measuring import Measurer, measurement_of
from orchestrator.evolve.systems import PLAIN, Arm, Book, Individual, Point, System
from orchestrator.output import OutputFolder
from orchestrator.report.statistics import Comparison
from orchestrator.settings import Settings, pinned_of
from tasks.context import content_hash
from tasks.limits import LARGEST_DELTA
from tasks.plan import EXAMPLE_SETS, ExampleSet
from tasks.store.uses import record_use

MOST_ORDERED = 16
"""How many systems the ordering questions are asked."""
MOST_TESTED = 5
"""How many members of the front the validation set tests."""
FIRST_SENTENCE = "first sentence"
"""The name of the rival that stops after the first sentence."""
DRAWN = 20
"""The standard deviation of a random vector's deltas is this part of the largest delta: more breaks most answers."""
AGAIN = 1
"""The plain model answers the ordering questions once more: greedy answers depend on the batch."""


@dataclass(frozen=True)
class Closing:
    """What a finished search is concluded from."""

    measurer: Measurer
    settings: Settings
    output: OutputFolder

    def conclude(self, book: Book, individuals: Sequence[Individual]) -> Book:
        """The front, its order, who passed, the winner, and the test set; each stage as far as it is not done."""
        if book.order is None:
            book = self._ordered(self._with_front(book, individuals)).write(self.output)
        if not book.winner:
            book = self._tested(book).write(self.output)
        return self._with_test(self._with_rivals(book))

    def _with_front(self, book: Book, individuals: Sequence[Individual]) -> Book:
        """With the systems that the search, and as many random draws, have brought to the front."""
        arms = {arm.name: arm for arm in book.arms}
        distinct = list({(one.arm, one.deltas): one for one in reversed(individuals)}.values())[::-1]
        drawn = self.measurer.measure("random", [book.known(one) for one in self._draw(distinct, arms)], "training")
        measured = [*book.having("training"), *drawn]
        points = [*(one.on("training").point for one in measured), *(one.point for one in distinct)]
        on_front = set(members_of(points, book.plain))
        evolved = [
            System(one.node, "evolved", arms[one.arm].system_prompt, one.arm, one.deltas, arms[one.arm].clustering)
            for i, one in enumerate(distinct, start=len(measured))
            if i in on_front
        ]
        kept = [one for i, one in enumerate(measured) if i in on_front and one.kind == "random"]
        evolved = self.measurer.measure("front", [book.known(one) for one in evolved], "training")
        return book.with_systems([*evolved, *kept])

    def _draw(self, individuals: Sequence[Individual], arms: Mapping[str, Arm]) -> list[System]:
        """Random vectors, as many as the search has evaluated in each arm: what it must be better than."""
        settings, found = self.settings, list[System]()
        pinned, bound = pinned_of(settings), settings.delta_bound
        for name, count in Counter(one.arm for one in individuals if arms[one.arm].clustering).items():
            arm, size = arms[name], len(individuals[0].deltas)
            rng = random.Random(f"random vectors {settings.seed} {name}")  # more of them begin with the same ones
            for number in range(count if settings.whole else 0):
                draws = [min(bound, max(-bound, rng.gauss(0.0, bound / DRAWN))) for _ in range(size)]
                deltas = tuple(0.0 if i in pinned else draw for i, draw in enumerate(draws))
                label = f"{name}: random {number}"
                found.append(System(label, "random", arm.system_prompt, name, deltas, arm.clustering))
        return found

    @property
    def _ordering(self) -> ExampleSet:
        """The set that orders the front: training questions that no fitness used, where there are enough."""
        return "ordering" if self.measurer.examples.get("ordering") else "training"

    def _ordered(self, book: Book) -> Book:
        which, settings = self._ordering, self.settings
        # Also those that need no search and are off the front: a lucky individual must not take their place.
        systems = [one for one in book.having("training") if one.name != PLAIN]
        points, least = [one.on("training").point for one in systems], WORTH * book.plain.on("training").point.correct
        asked = [book.plain, *(systems[i] for i in halve(points, MOST_ORDERED, least))]
        plain, *members = self.measurer.measure("ordering", asked, which)
        order = order_members(
            {one.name: one.on(which) for one in members},
            plain.on(which),
            settings.margin,
            settings.goal,
            MOST_TESTED,
        )
        [again] = self.measurer.answers("ordering", [plain.candidate(which, repeat=AGAIN)])
        flips = sum(a != b for a, b in zip(plain.on(which).correct, measurement_of(again).correct, strict=True))
        return replace(book.with_systems([plain, *members]), order=order, flips=flips)

    def _tested(self, book: Book) -> Book:
        """Who passed on the validation set, and the winner: the plain model where nothing is shown."""
        assert book.order is not None
        if not self.measurer.examples.get("validation"):
            return replace(book, winner=PLAIN)
        which: ExampleSet = "validation"
        [plain] = self.measurer.measure("validation", [book.plain], which)
        asked = {PLAIN: plain}

        def ask(name: str) -> Sequence[bool]:
            [asked[name]] = self.measurer.measure("validation", [book.system(name)], which)
            return asked[name].on(which).correct

        shown = passed(book.order, test_members(book.order, plain.on(which).correct, ask, self.settings.margin))
        winner = choose(shown, self.settings.goal)
        return replace(
            book.with_systems([*asked.values()]),
            passed=tuple(one.name for one in shown),
            winner=PLAIN if winner is None else winner.name,
        )

    def _with_rivals(self, book: Book) -> Book:
        """With what is free in every engine: the winner's prompt alone, a limit of tokens at its length, a stop."""
        sets: tuple[ExampleSet, ...] = ("test", "validation", self._ordering)
        which = next(name for name in sets if self.measurer.examples.get(name))
        leader = book.leader
        if leader.name == PLAIN:
            return book
        tokens = max(1, round(leader.on(self._ordering).mean_tokens))
        limited = System(f"max_tokens {tokens}", "cut", book.plain.system_prompt, max_tokens=tokens)
        rivals = [limited, first_sentence(book)] if self.settings.whole else [limited]
        if leader.deltas and leader.arm != PLAIN:
            rivals.append(book.system(leader.arm))
        return book.with_systems(self.measurer.measure("rivals", [book.known(one) for one in rivals], which))

    def _with_test(self, book: Book) -> Book:
        """The plain model and the winner on the test set, as its rivals are, which nothing has been chosen on."""
        if not (asked := self.measurer.examples.get("test")):
            return book
        systems = [book.plain] if book.winner == PLAIN else [book.plain, book.system(book.winner)]
        rows = sorted([[example.question, example.context, example.gold] for example in asked])
        winner = book.system(book.winner)
        use = content_hash(self.measurer.run_id, winner.system_prompt, list(winner.deltas))
        uses = record_use(self.measurer.store.redis, content_hash(rows), use)
        return replace(book.with_systems(self.measurer.measure("test", systems, "test")), test_uses=uses)

    def comparisons(self, book: Book) -> tuple[Comparison, ...]:
        """The answers of the plain model and of the leader side by side, on every set of questions."""
        sets = [which for which in EXAMPLE_SETS if self.measurer.examples.get(which)]
        both = (book.plain, book.leader)
        answers = self.measurer.answers("final", [one.candidate(which) for which in sets for one in both])
        return tuple(Comparison(f"{which} set", *answers[2 * i : 2 * i + 2]) for i, which in enumerate(sets))


def members_of(points: Sequence[Point], plain: System) -> list[int]:
    """The indices of the points on the front, without those that have too few correct answers to be of use."""
    least = WORTH * plain.on("training").point.correct
    return [i for i in front(points) if points[i].correct >= least]


def first_sentence(book: Book) -> System:
    """The plain model, stopped after its first sentence: there the end of a turn outweighs every other token."""
    arm = book.arms[0]
    clusters = next(len(one.deltas) for one in book.systems if one.clustering == arm.clustering and one.deltas)
    stop = (LARGEST_DELTA, *(0.0,) * (clusters - 1))
    return System(FIRST_SENTENCE, "cut", book.plain.system_prompt, deltas=stop, clustering=arm.clustering)
