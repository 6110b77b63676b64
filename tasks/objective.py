"""One number that ranks a candidate, from the tokens and verdicts of its answers.

specification   lambda_shortness / (1 + mean tokens / scale) + lambda_correctness * share correct
constrained     exp(-cost), with cost = log(mean tokens / baseline) + penalty for what is lost - reward for gained

`constrained` is 1 for the baseline itself and 2 for answers half as long with as many correct.  docs/method.md says
why its penalty is as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tasks.records import Constrained, Objective, Score

LEAST_TOKENS = 1.0  # shorter means count as this: an empty answer must not be worth infinitely much
LOSS_PENALTY = 5.0  # for a share of 1, so 0.05 a point
LOSS_SCALE = 0.05  # the lost share at which the square doubles the penalty
GAIN_REWARD = 2.0  # likewise for a share of 1


def score_answers(tokens: Sequence[float], correct: Sequence[float], objective: Objective) -> Score:
    """Score one evaluation.

    tokens: [n] generated tokens of each answer; correct: [n] 1 for each that is correct, right and whole.
    """
    if not tokens or len(tokens) != len(correct):
        raise ValueError(f"{len(tokens)} answers and {len(correct)} verdicts cannot be scored")
    mean_tokens, correctness = sum(tokens) / len(tokens), sum(correct) / len(correct)
    fitness = fitness_of(mean_tokens, correctness, objective)
    return Score(fitness, shortness_of(mean_tokens, objective), correctness, mean_tokens)


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
    lost = max(0.0, -change)
    penalty = LOSS_PENALTY * lost * (1 + lost / LOSS_SCALE)
    return math.log(ratio) + penalty - GAIN_REWARD * max(0.0, change)


def shortness_of(mean_tokens: float, objective: Objective) -> float:
    """1 for no tokens, 1/2 at the scale (for `constrained`: at the baseline), towards 0 for ever longer answers."""
    scale = objective.baseline_tokens if isinstance(objective, Constrained) else objective.shortness_scale
    return 1 / (1 + mean_tokens / scale)
