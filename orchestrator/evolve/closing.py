"""After the last generation: one front of all systems, their order, the test on the validation set, the test set.

The front is made on training questions.  Its members are ordered on a part of them that no fitness used, and the order
is on disk before the validation set is asked; each member is then tested in turn (`orchestrator.evolve.choice`).  The
test set is asked last, of the winner and of what is free beside it; then questions of another kind are, of the winner.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.evolve.choice import additions, choose, halve, least_correct, order_members, test_members
from orchestrator.evolve.records import Individual
from orchestrator.evolve.search import best_first
from orchestrator.evolve.systems import PLAIN, Arm, Book, Measurer, System, measurement_of
from orchestrator.report.model import LAST_FIRST, last_common
from orchestrator.report.statistics import Comparison, Point
from orchestrator.runs.folder import OutputFolder
from orchestrator.settings.inputs import layout_of, pinned_of
from orchestrator.settings.options import Settings
from tasks.common.validation import LARGEST_DELTA
from tasks.plan import ExampleSet
from tasks.store.keys import content_hash
from tasks.store.store import record_use

MOST_KNOWN = 8
"""How many prompts and vectors without search the ordering questions are asked."""
MOST_SEARCHED = 4
"""How many evolved and how many random systems they are asked: as many of each, so that the two can be compared."""
MOST_TESTED = 5
"""How many members of the front the validation set tests."""
FIRST_SENTENCE = "first sentence"
DRAWN = 20
"""The standard deviation of a random vector's deltas is this part of the largest delta: more breaks most answers."""
AGAIN = 1
"""The plain model answers the ordering questions once more: greedy answers depend on the batch."""


@dataclass(frozen=True)
class Closing:
    measurer: Measurer
    settings: Settings
    output: OutputFolder

    def conclude(self, book: Book, individuals: Sequence[Individual], generations: int) -> Book:
        """The front, its order, who passed, the winner, and the test set; each stage as far as it is not done.

        generations: how many the search has had.  After more than the choice was made of, it is made once more.
        """
        if book.order is not None and book.generations != generations:
            book = replace(book, order=None, tests=(), winner="", rounds=book.rounds + 1)
        if book.order is None:
            book = replace(self._ordered(book, individuals), generations=generations).write(self.output)
        if not book.winner:
            book = self._tested(book).write(self.output)
        return self._with_everyday(self._with_rivals(self._with_test(book)))

    def _searched(self, book: Book, individuals: Sequence[Individual]) -> list[System]:
        """What the search has brought to the front of what is known without it, and what as many random draws have.

        Each on a front of its own: on a common one the evolved systems would remove the random ones by luck.
        """
        arms = {arm.name: arm for arm in book.arms}
        distinct = list({(one.arm, one.vector): one for one in reversed(individuals)}.values())[::-1]
        draws = self._draw(distinct, arms) if self.settings.whole else []
        drawn = self.measurer.measure("random", [book.known(one) for one in draws], "training")
        known = [one.on("training").point for one in book.of_kind("plain", "prompt", "vector") if one.training]

        def kept(added: Sequence[Point]) -> list[int]:
            return additions(added, known, MOST_SEARCHED, least_correct(book.plain))

        evolved = [distinct[i].system(arms[distinct[i].arm]) for i in kept([one.point for one in distinct])]
        evolved = self.measurer.measure("front", [book.known(one) for one in evolved], "training")
        # Where no random vector is on the front, the best one still shows what the search must be better than.
        best = [drawn[i] for i in kept([one.on("training").point for one in drawn])] or best_first(drawn)[:1]
        return [*evolved, *best]

    def _draw(self, individuals: Sequence[Individual], arms: Mapping[str, Arm]) -> list[System]:
        """Random vectors, as many as the search has evaluated in each arm: what it must be better than."""
        settings, found = self.settings, list[System]()
        pinned, bound = pinned_of(settings), settings.delta_bound
        for name, count in Counter(one.arm for one in individuals).items():
            arm, size = arms[name], len(individuals[0].deltas)
            rng = random.Random(f"random vectors {settings.seed} {name}")  # more of them begin with the same ones
            for number in range(count):
                draws = [min(bound, max(-bound, rng.gauss(0.0, bound / DRAWN))) for _ in range(size)]
                deltas = tuple(0.0 if i in pinned else draw for i, draw in enumerate(draws))
                label = f"{name}: random {number}"
                found.append(System(label, "random", arm.system_prompt, name, deltas, arm.clustering))
        return found

    def _ordered(self, book: Book, individuals: Sequence[Individual]) -> Book:
        settings = self.settings
        which: ExampleSet = "ordering" if self.measurer.examples.get("ordering") else "training"
        # Those that need no search have places of their own: a lucky individual must not take them.
        known = [one for one in book.of_kind("prompt", "vector") if one.training]
        points = [one.on("training").point for one in known]
        known = [known[i] for i in halve(points, MOST_KNOWN, least_correct(book.plain))]
        asked = [book.plain, *known, *self._searched(book, individuals)]
        missing = [one for one in asked if getattr(one, which) is None]
        candidates = [*(one.candidate(which) for one in missing), book.plain.candidate(which, repeat=AGAIN)]
        *found, again = (measurement_of(given) for given in self.measurer.answers("ordering", candidates))
        new = {one.name: one.measured(which, of) for one, of in zip(missing, found, strict=True)}
        plain, *members = (new.get(one.name, one) for one in asked)
        answered = {one.name: one.on(which) for one in members}
        order = order_members(answered, plain.on(which), settings.margin, settings.goal, MOST_TESTED)
        flips = sum(a != b for a, b in zip(plain.on(which).correct, again.correct, strict=True))
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

        tests = test_members(book.order, plain.on(which).correct, ask, self.settings.margin)
        winner = choose(book.order, tests, self.settings.goal)
        name = PLAIN if winner is None else winner.name
        return replace(book.with_systems([*asked.values()]), tests=tests, winner=name)

    def _with_test(self, book: Book) -> Book:
        """The plain model and the winner on the test set, which nothing has been chosen on."""
        winner = book.system(book.winner)
        if rows := self.measurer.examples.get("test"):
            asked = [content_hash(example.question, example.context, example.gold) for example in rows]
            use = content_hash(self.measurer.run_id, winner.system_prompt, list(winner.deltas))
            book = replace(book, test_uses=record_use(self.measurer.store.redis, asked, use))
            systems = [book.plain] if winner.name == PLAIN else [book.plain, winner]
            book = book.with_systems(self.measurer.measure("test", systems, "test"))
        return book

    def _with_rivals(self, book: Book) -> Book:
        """The rivals on the questions that put the front in order, and on the last ones that the contender answers."""
        sets = dict.fromkeys((book.ordering_set, last_common(book.contender) or book.ordering_set))
        return book.with_systems(self.measurer.measure("rivals", self._rivals(book), *sets))

    def _with_everyday(self, book: Book) -> Book:
        """The plain model and a winner beside it on questions of another kind."""
        if book.winner == PLAIN or not self.measurer.examples.get("everyday"):
            return book
        both = [book.plain, book.system(book.winner)]
        return book.with_systems(self.measurer.measure("everyday", both, "everyday"))

    def _rivals(self, book: Book) -> list[System]:
        """What is free in every engine: the contender's prompt alone, a limit of tokens at its length, a stop.

        The limit is its mean on the last questions that it was asked, rounded down: there the limit has no more tokens.
        """
        contender = book.contender
        if contender.name == PLAIN:
            return []
        tokens = max(1, int(contender.on(last_common(contender) or "training").mean_tokens))
        prompt = book.plain.system_prompt
        rivals = [System(f"max_tokens {tokens}", "cut", prompt, max_tokens=tokens)]
        if self.settings.whole:  # after the first sentence the end of a turn outweighs every other token
            stop = (LARGEST_DELTA, *(0.0,) * (layout_of(self.settings).count - 1))
            clustering = book.arms[0].clustering
            rivals.append(System(FIRST_SENTENCE, "cut", prompt, deltas=stop, clustering=clustering))
        if contender.deltas and contender.arm != PLAIN:
            rivals.append(book.system(contender.arm))
        return [book.known(one) for one in rivals]

    def comparisons(self, book: Book) -> tuple[Comparison, ...]:
        """The answers of the plain model and of the contender side by side, on every set that both were asked."""
        both = (book.plain, book.contender)
        sets = [which for which in reversed(LAST_FIRST) if all(getattr(one, which) is not None for one in both)]
        answers = self.measurer.answers("final", [one.candidate(which) for which in sets for one in both])
        pairs = zip(sets, answers[::2], answers[1::2], strict=True)
        return tuple(Comparison(f"{which} set", one, two, book.contender.name) for which, one, two in pairs)
