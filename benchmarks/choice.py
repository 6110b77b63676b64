"""How often the choice of a winner breaks its promise, and how often it finds the best system: worlds of known truth.

Each world has systems with a true share of the plain model's tokens and a true change of correct answers.  In each draw
all answer 200 questions that a search has used, 100 questions for the order, and up to 600 validation questions.  The
members are the front on the first, the luckiest of many, and all systems that are not searched; they are ordered on the
second and tested on the third by `orchestrator.evolve.choice`.  Two worlds are ordered on the search's questions too.
Where all systems lose just the margin, four times as many draws tell 5 % from 6 %.

The plain model answers half of the questions.  Of a system's answers 12 to 20 % change sides, more of them on the same
questions as another system's than by chance.  Tokens are lognormal around the question's length.

Compared with two other rules: the fewest tokens on the validation questions with an observed loss within the margin
(`observed`); and a chain of tests of fitness, by the bootstrap (`chain`): the first system without search that no other
is shown to beat, unless the best of the search's four best is shown to beat it, corrected for their number.

A rule fails where what it chose truly loses the margin or more; for Pareto Testing `error` counts each draw in which
any such member passed.  It finds the best where the winner keeps the margin and has at most 5 % of plain's tokens more
than the shortest that does ("most_right": at most one point less than the best that is no longer than plain).
`python benchmarks/choice.py [--draws 2000] [--questions 100 200 300 400 600]`
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from figures import table, write
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from orchestrator.evolve import choice
from orchestrator.evolve.choice import front
from orchestrator.report.statistics import Point, share_interval

SEARCH, ORDER = 200, 100  # questions
MARGIN, SMALL_MARGIN = 0.05, 0.03
MOST = 5  # members tested
RIGHT = 0.5  # the share of questions that the plain model answers
COMMON = 0.5  # the correlation of what makes two systems' answers change sides
TOKENS = 75
NEAR_TOKENS, NEAR_CORRECT = 0.05, 0.01
LIMIT = 0.06
RESAMPLES, FINALISTS = 500, 4
_NORMAL = NormalDist()


@dataclass(frozen=True)
class System:
    """A truth: its mean tokens divided by the plain model's, the change of the share of correct answers, and the share
    of answers that change sides.
    """

    factor: float
    change: float
    discordant: float = 0.16
    searched: bool = False


@dataclass(frozen=True)
class World:
    name: str
    goal: choice.Goal
    systems: tuple[System, ...]
    margin: float = MARGIN
    is_order_fresh: bool = True
    times: int = 1

    def is_kept(self, index: int | None) -> bool:
        """Whether the system loses less than the margin; None is the plain model."""
        return index is None or self.systems[index].change > -self.margin + 1e-9

    def is_best(self, index: int | None) -> bool:
        """Whether the system is as good a choice as the best, or nearly."""
        system = System(1.0, 0.0) if index is None else self.systems[index]
        kept = [System(1.0, 0.0)] + [one for i, one in enumerate(self.systems) if self.is_kept(i) and one.factor <= 1]
        if not self.is_kept(index) or system.factor > 1:
            return False
        if self.goal == "shortest":
            return system.factor <= min(one.factor for one in kept) + NEAR_TOKENS
        return system.change >= max(one.change for one in kept) - NEAR_CORRECT


def _searched(
    count: int, factors: tuple[float, float], changes: tuple[float, float], discordant: float
) -> list[System]:
    """Individuals of a search, evenly spread between two trades."""
    pairs = zip(np.linspace(*factors, count).tolist(), np.linspace(*changes, count).tolist(), strict=True)
    return [System(factor, change, discordant, searched=True) for factor, change in pairs]


def _lose(margin: float) -> tuple[System, ...]:
    return tuple(_searched(200, (0.4, 0.7), (-margin, -margin), 0.16))


_ARMS = (
    System(1.4, 0.06, 0.2),  # the longer prompt,
    System(0.82, 0.07, 0.2),  # its log-odds,
    System(0.39, -0.03, 0.16),  # a shorter prompt,
    System(0.4, 0.0, 0.16),  # its log-odds,
    System(0.65, -0.005, 0.12),  # the plain prompt's log-odds
    *_searched(15, (0.7, 0.9), (0.03, 0.07), 0.2),
    *_searched(15, (0.3, 0.4), (-0.12, -0.02), 0.18),
)
_VECTOR = (
    System(0.39, -0.08),
    System(0.8, -0.005, 0.12),
    System(0.6, 0.0, 0.16, searched=True),
    *_searched(20, (0.35, 0.55), (-0.15, -0.06), 0.18),
    *_searched(20, (0.66, 0.95), (-0.02, 0.0), 0.14),
)
WORLDS = (
    World(
        "nothing works",
        "shortest",
        (
            System(0.39, -0.08),
            System(0.25, -0.15, 0.2),
            System(0.65, -MARGIN, 0.12),
            *_searched(20, (0.35, 0.8), (-0.12, -MARGIN), 0.18),
        ),
    ),
    World(
        "a sentence suffices",
        "shortest",
        (
            System(0.39, 0.0),
            System(0.65, -0.005, 0.12),
            *_searched(10, (0.25, 0.38), (-0.15, -0.06), 0.18),
            *_searched(10, (0.39, 0.6), (-0.02, -0.01), 0.18),
        ),
    ),
    World(
        "a lucky candidate among 60",
        "shortest",
        (System(0.8, 0.0, 0.12), *_searched(59, (0.3, 0.75), (-0.06, -0.06), 0.2)),
    ),
    World("a vector saves 40 % and loses nothing", "shortest", _VECTOR),
    World("a longer prompt is better", "shortest", _ARMS),
    World("a longer prompt is better", "most_right", _ARMS),
    World("the same vector, ordered on the search's questions", "shortest", _VECTOR, is_order_fresh=False),
    World("the margin is lost", "shortest", _lose(MARGIN), times=4),
    World("the margin is lost, ordered on the search's questions", "shortest", _lose(MARGIN), MARGIN, False, times=4),
    World("a margin of 3 points is lost", "shortest", _lose(SMALL_MARGIN), SMALL_MARGIN, times=4),
)


@dataclass(frozen=True)
class Answers:
    tokens: list[int]
    correct: list[bool]


@dataclass(frozen=True)
class Draw:
    """Tokens [1 + s, n] and verdicts [1 + s, n] of the plain model and of s systems on all questions."""

    tokens: NDArray[np.int64]
    correct: NDArray[np.bool_]

    @classmethod
    def of(cls, world: World, count: int, rng: np.random.Generator) -> Draw:
        systems = world.systems
        right = rng.random(count) < RIGHT
        own = rng.standard_normal((len(systems), count), dtype=np.float32)
        latent = COMMON**0.5 * rng.standard_normal(count, dtype=np.float32) + (1 - COMMON) ** 0.5 * own
        lost = [[_NORMAL.inv_cdf((one.discordant - one.change) / 2 / RIGHT)] for one in systems]
        gained = [[_NORMAL.inv_cdf((one.discordant + one.change) / 2 / (1 - RIGHT))] for one in systems]
        correct = np.where(right, latent > np.array(lost, np.float32), latent < np.array(gained, np.float32))
        means = TOKENS * np.array([[1.0], *([one.factor] for one in systems)])
        noise = np.exp(0.3 * rng.standard_normal((len(means), count), dtype=np.float32) - 0.045)
        lengths = means * rng.lognormal(-0.125, 0.5, count) * noise
        return cls(np.maximum(1, np.rint(lengths)).astype(np.int64), np.vstack([right, correct]))

    def answers(self, system: int, part: slice) -> Answers:
        return Answers(self.tokens[system, part].tolist(), self.correct[system, part].tolist())


def members_of(world: World, draw: Draw) -> list[int]:
    """The front on the questions of the search, and what is not searched; 0 is the plain model."""
    tokens, correct = draw.tokens[1:, :SEARCH].mean(1).tolist(), draw.correct[1:, :SEARCH].mean(1).tolist()
    on_front = set(front([Point(*pair) for pair in zip(tokens, correct, strict=True)]))
    return [1 + i for i, one in enumerate(world.systems) if i in on_front or not one.searched]


def order_of(world: World, draw: Draw, members: Sequence[int]) -> tuple[choice.Member, ...]:
    part = slice(SEARCH, SEARCH + ORDER) if world.is_order_fresh else slice(0, SEARCH)
    answers = {str(index): draw.answers(index, part) for index in members}
    return choice.order_members(answers, draw.answers(0, part), world.margin, world.goal, MOST)


def pareto_testing(
    world: World, draw: Draw, order: Sequence[choice.Member], count: int
) -> tuple[int | None, list[int], int]:
    """The winner, who passed, and how many members were asked `count` validation questions."""
    part = slice(SEARCH + ORDER, SEARCH + ORDER + count)
    plain = draw.correct[0, part].tolist()
    tests = choice.test_members(order, plain, lambda name: draw.correct[int(name), part].tolist(), world.margin)
    passed = [int(test.name) - 1 for test in tests if test.result.is_shown]
    winner = choice.choose(order, tests, world.goal)
    return (None if winner is None else int(winner.name) - 1), passed, len(tests)


def observed(world: World, draw: Draw, members: Sequence[int], count: int) -> int | None:
    """The best on the validation questions of those that lose at most the margin there."""
    validation = slice(SEARCH + ORDER, SEARCH + ORDER + count)
    tokens, correct = draw.tokens[:, validation].mean(1), draw.correct[:, validation].mean(1)
    kept = [i for i in members if correct[i] >= correct[0] - world.margin and tokens[i] <= tokens[0]]
    best = min(kept, key=lambda i: float(tokens[i] if world.goal == "shortest" else -correct[i]), default=None)
    return None if best is None else best - 1


def chain(world: World, draw: Draw, count: int, resampled: NDArray[np.float32]) -> int | None:
    """The start that none of the systems without search is shown to beat, or the best finalist if shown to be better.

    resampled: [r, count] how often each resample has each question.
    """
    searched = [1 + i for i, one in enumerate(world.systems) if one.searched]
    starts = [0] + [1 + i for i, one in enumerate(world.systems) if not one.searched]
    on_search = _fitness(draw.tokens[:, :SEARCH].mean(1), draw.correct[:, :SEARCH].mean(1))
    finalists = sorted(searched, key=lambda i: -float(on_search[i]))[:FINALISTS]
    asked = [*starts, *finalists]
    validation = slice(SEARCH + ORDER, SEARCH + ORDER + count)
    tokens, correct = (values[asked, validation].astype(np.float32).T for values in (draw.tokens, draw.correct))
    here = _fitness(tokens.mean(0), correct.mean(0))
    drawn = _fitness(resampled @ tokens / count, resampled @ correct / count)
    of_starts = drawn[:, : len(starts)]
    beaten = [((of_starts > of_starts[:, [i]]).mean(0) >= 0.95).any() for i in range(len(starts))]
    start = beaten.index(False) if False in beaten else int(here[: len(starts)].argmax())
    best = len(starts) + int(here[len(starts) :].argmax())
    if best < len(asked) and (drawn[:, best] > drawn[:, start]).mean() >= 1 - 0.05 / len(finalists):
        start = best
    return None if asked[start] == 0 else asked[start] - 1


def _fitness(tokens: NDArray[Any], correct: NDArray[Any]) -> NDArray[Any]:
    """The constrained objective's logarithm, relative to the plain model, which is the first in the last axis."""
    change = correct - correct[..., :1]
    lost = np.maximum(0, -change)
    fitness: NDArray[Any] = -np.log(tokens / tokens[..., :1]) - 5 * lost * (1 + lost / 0.05) + 2 * np.maximum(0, change)
    return fitness


def simulate(world: World, draws: int, counts: Sequence[int]) -> Iterator[dict[str, Any]]:
    """The figures of one world for each number of validation questions."""
    draws *= world.times
    rng = np.random.default_rng(1)
    resampled = {n: rng.multinomial(n, np.full(n, 1 / n), RESAMPLES).astype(np.float32) for n in counts}
    seen: dict[int, Counter[str]] = {n: Counter() for n in counts}
    for _ in range(draws):
        draw = Draw.of(world, SEARCH + ORDER + max(counts), rng)
        members = members_of(world, draw)
        order = order_of(world, draw, members)
        for n in counts:
            winner, passed, tested = pareto_testing(world, draw, order, n)
            seen[n].update({"error": not all(map(world.is_kept, passed)), "tested": tested, "plain": winner is None})
            rivals = {"observed": observed(world, draw, members, n), "chain": chain(world, draw, n, resampled[n])}
            for rule, found in {"pareto": winner, **rivals}.items():
                system = System(1.0, 0.0) if found is None else world.systems[found]
                seen[n].update({f"{rule} found": world.is_best(found), f"{rule} failed": not world.is_kept(found)})
                seen[n].update({f"{rule} tokens": system.factor, f"{rule} change": system.change})
    for n in counts:
        error = share_interval(seen[n]["error"], draws)
        figures = {name: round(total / draws, 4) for name, total in sorted(seen[n].items())}
        yield {
            "world": world.name,
            "goal": world.goal,
            "margin": world.margin,
            "questions": n,
            "draws": draws,
            **figures,
            "error_interval": [round(error.low, 4), round(error.high, 4)],
        }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--questions", type=int, nargs="+", default=[100, 200, 300, 400, 600])
    options = parser.parse_args(arguments)
    with threadpool_limits(1):  # the products are too small for several threads
        figures = [one for world in WORLDS for one in simulate(world, options.draws, options.questions)]
    head = "world,goal,questions,error,95 % interval,at most 6 %,plain,best found,observed,chain,fails: observed,chain"
    rows = [
        [
            one["world"],
            one["goal"],
            str(one["questions"]),
            f"{100 * one['error']:.1f} %",
            "{:.1f} to {:.1f}".format(*(100 * end for end in one["error_interval"])),
            "yes" if one["error"] <= LIMIT else "NO",
            f"{100 * one['plain']:.0f} %",
            *(f"{100 * one[f'{rule} found']:.0f} %" for rule in ("pareto", "observed", "chain")),
            *(f"{100 * one[f'{rule} failed']:.0f} %" for rule in ("observed", "chain")),
        ]
        for one in figures
    ]
    print(table(head.split(","), rows))
    write("choice", {"limit": LIMIT, "worlds": figures})


if __name__ == "__main__":
    main()
