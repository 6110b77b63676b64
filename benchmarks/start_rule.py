"""What a search should start from: the highest fitness on a few questions, or the simplest that none is shown to beat.

From the answers of one finished run, whose test set was asked for every rival (CONFIG_TEST_EVERY_RIVAL): in each draw,
some of its test questions choose the start by either rule, and others test the choice.  The choice is among the vectors
without search that the run has measured.  The simplest is "end of turn alone".  Each choice is compared with the plain
model and with the prompt of the highest fitness on the questions that chose.
`python -m benchmarks.start_rule RUN [--choose 64] [--test 100] [--draws 1000]`
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from benchmarks.figures import table, write
from benchmarks.run_answers import PLAIN, Answers, Questions
from orchestrator.runs.superiority import is_shown_better
from orchestrator.runs.vectors import EOT, FACTORS, RAISES
from tasks.models import Constrained

TRIED = 1 + len(RAISES) + 2 * len(FACTORS)
"""Vectors that a run tries beside the raised end of turn."""
MOST_LOST = 0.03
SEED = 1

Rule = Callable[[Answers, Questions], str]


def highest(answers: Answers, asked: Questions) -> str:
    return answers.best(answers.named("vector"), asked)


def simplest(answers: Answers, asked: Questions) -> str:
    """The end of turn alone, or the best of those that are shown to be better."""
    objective, plain = Constrained(1.0, 0.0), answers.on(PLAIN, asked)

    def is_shown(name: str) -> bool:
        return is_shown_better(answers.on(name, asked), answers.on(EOT, asked), plain, objective, SEED, TRIED)

    shown = [name for name in answers.named("vector") if name != EOT and is_shown(name)]
    return answers.best([EOT, *shown], asked)


RULES: Mapping[str, Rule] = {"highest fitness": highest, "simplest": simplest}


def tested(answers: Answers, chosen: str, prompt: str, asked: Questions) -> list[float]:
    """Whether each condition holds on these questions, all of them, and the points of right answers that are lost."""
    plain, ours, rival = (answers.on(name, asked) for name in (PLAIN, chosen, prompt))
    lost = plain.correct.mean() - ours.correct.mean()
    held = [
        answers.fitness(chosen, asked) > max(1.0, answers.fitness(prompt, asked)),
        ours.tokens.mean() <= 0.5 * plain.tokens.mean(),
        ours.tokens.mean() <= 0.8 * rival.tokens.mean(),
        lost <= MOST_LOST + 1e-9,
    ]
    return [*map(float, held), float(all(held)), 100 * lost, ours.tokens.mean(), float(chosen == EOT)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the output folder of the run")
    parser.add_argument("--choose", type=int, default=64, help="questions that choose")
    parser.add_argument("--test", type=int, default=100, help="other questions, on which the choice is tested")
    parser.add_argument("--draws", type=int, default=1000)
    options = parser.parse_args()
    answers, rng = Answers(options.run, "test"), np.random.default_rng(SEED)
    if EOT not in answers.kinds or not answers.named("prompt"):
        parser.error(f"{options.run}: its test set was not asked for every rival (TEST_EVERY_RIVAL=y)")
    if options.choose + options.test > answers.count:
        parser.error(f"{options.choose} and {options.test} questions are more than the {answers.count} of the test set")
    rows: dict[str, list[list[float]]] = {name: [] for name in RULES}
    for _ in range(options.draws):
        drawn = rng.permutation(answers.count)[: options.choose + options.test]
        asked, others = drawn[: options.choose], drawn[options.choose :]
        prompt = answers.best(answers.named("prompt"), asked)
        for name, rule in RULES.items():
            rows[name].append(tested(answers, rule(answers, asked), prompt, others))
    names = ("fitness above both", "half of plain's tokens", "a fifth of the prompt's", "at most 3 points lost", "all")
    means = {name: np.mean(of, axis=0).tolist() for name, of in rows.items()}
    head = ["rule", *names, "points lost", "tokens", "end of turn alone"]
    shown = [
        [name, *(f"{100 * x:.1f} %" for x in of[:5]), f"{of[5]:+.2f}", f"{of[6]:.1f}", f"{100 * of[7]:.0f} %"]
        for name, of in means.items()
    ]
    print(table(head, shown))
    settings = {"choose": options.choose, "test": options.test, "draws": options.draws, "questions": answers.count}
    write(
        "start_rule", {**settings, "rules": {name: dict(zip(head[1:], of, strict=True)) for name, of in means.items()}}
    )


if __name__ == "__main__":
    main()
