"""One number that ranks a candidate, from the tokens and verdicts of its answers.

Two objectives:

specification   lambda_shortness / (1 + mean tokens / scale) + lambda_correctness * share correct
constrained     exp(-cost), with cost = log(mean tokens / baseline) + penalty for what is lost - reward for gained

`constrained` is 1 for the baseline itself and 2 for answers half as long with as many correct.  The penalty for a loss
of d beyond the margin is loss_penalty * d * (1 + d / loss_scale).  The first point (a hundredth of the questions) costs
as much as 6 % more tokens and three points 27 %; at ten points it takes answers of less than a quarter of the length to
make up for it.  The square matters: with a constant price of 5 % a point, answers of one token that are all wrong beat
answers of a hundred tokens of which six in ten are correct.  A point gained is worth 2 % fewer tokens, less than a lost
one: a gain on the questions of a search is in part chance.

Lost and gained are net counts against the baseline, as the test of non-inferiority has them, so
that answers which change sides by chance cost nothing.

The margin is 0 by default, not the margin of that test.  A search uses up whatever is free, and a true loss near the
margin is rarely shown to be below it: on 600 questions of which 12 % change sides, a margin of 3 points is met in most
runs only where at most half a point is lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tasks.records import Constrained, Objective, Score

LEAST_TOKENS = 1.0
"""Shorter means count as this: an empty answer must not be worth infinitely much."""


def score_answers(tokens: Sequence[float], correct: Sequence[float], objective: Objective) -> Score:
    """Score one evaluation.

    tokens: [n] generated tokens of each answer; correct: [n] 1 for each that is correct, right and whole.
    """
    if not tokens or len(tokens) != len(correct):
        raise ValueError(f"{len(tokens)} answers and {len(correct)} verdicts cannot be scored")
    mean_tokens = sum(tokens) / len(tokens)
    correctness = sum(correct) / len(correct)
    return Score(
        fitness=fitness_of(mean_tokens, correctness, objective),
        shortness=shortness_of(mean_tokens, objective),
        correctness=correctness,
        mean_tokens=mean_tokens,
    )


def fitness_of(mean_tokens: float, correctness: float, objective: Objective) -> float:
    """The fitness of a mean number of tokens and a share of correct answers; higher is better."""
    if isinstance(objective, Constrained):
        return math.exp(-cost_of(mean_tokens, correctness, objective))
    shortness = shortness_of(mean_tokens, objective)
    return objective.lambda_shortness * shortness + objective.lambda_correctness * correctness


def cost_of(mean_tokens: float, correctness: float, objective: Constrained) -> float:
    """The logarithm of the token ratio, with the penalty for lost and the reward for gained correct answers."""
    ratio = max(mean_tokens, LEAST_TOKENS) / objective.baseline_tokens
    change = correctness - objective.baseline_correctness
    lost = max(0.0, -change - objective.margin)
    penalty = objective.loss_penalty * lost * (1 + lost / objective.loss_scale)
    return math.log(ratio) + penalty - objective.gain_reward * max(0.0, change)


def shortness_of(mean_tokens: float, objective: Objective) -> float:
    """1 for no tokens, 1/2 at the scale (for `constrained`: at the baseline), towards 0 for ever longer answers."""
    scale = objective.baseline_tokens if isinstance(objective, Constrained) else objective.shortness_scale
    return 1 / (1 + mean_tokens / scale)
