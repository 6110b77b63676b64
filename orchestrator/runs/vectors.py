"""Two vectors that need no search: the end of the turn alone, and the wasted tokens' log-odds times one factor.

Each is a line search on the training set.  The best of each family is then asked the validation set, where it stands
beside what the search has found: a search that is not better than these was not worth its evaluations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.report.systems import MeasuredSystem
from orchestrator.runs.measuring import Answers, Measurer, measured
from tasks.models import Objective
from tasks.plan import Candidate, ExampleSet

PLAN = "vectors"
EOT_DELTAS = (1.0, 2.0, 3.0, 4.0, 6.0)
"""Logits added to the tokens that end a turn."""
FACTORS = (0.25, 0.5, 1.0, 2.0)
"""What the negative log-odds of each cluster are multiplied by."""

Deltas = tuple[float, ...]


@dataclass(frozen=True)
class Families:
    """The vectors of each line, by its name."""

    lines: Mapping[str, tuple[Deltas, ...]]

    @classmethod
    def of(cls, clusters: int, eot: int | None, log_odds: Sequence[float], bound: float) -> Families:
        """The lines that this clustering allows.

        eot: the position of the cluster of tokens that end a turn, None where there is none; log_odds: one value a
        cluster, how much likelier it is in wordy answers than in short ones, empty where that is not known; bound: the
        largest absolute delta.
        """
        lines: dict[str, tuple[Deltas, ...]] = {}
        if eot is not None:
            lines["end of turn alone"] = tuple(
                tuple(delta if i == eot else 0.0 for i in range(clusters)) for delta in EOT_DELTAS if delta <= bound
            )
        if any(log_odds):
            lines["log-odds alone"] = tuple(
                tuple(min(bound, max(-bound, -factor * value)) for value in log_odds) for factor in FACTORS
            )
        return cls(lines)


def measure_vectors(
    measurer: Measurer, families: Families, held_out: ExampleSet, objective: Objective, generation: int
) -> tuple[MeasuredSystem, ...]:
    """The best vector of each line on the training set, with its answers to the set `held_out`.

    `objective` is that of the set `held_out`; on the training set the search's own ranks.  Raises: Parked.
    """
    run = measurer.store.run(measurer.run_id)
    tried = [(name, deltas) for name, line in families.lines.items() for deltas in line]
    if not tried:
        return ()
    answers = measurer.answers(PLAN, generation, [Candidate(0, deltas) for _, deltas in tried])
    best = _best_of_each(tried, answers, run.objective)
    validated = measurer.answers(PLAN, generation, [Candidate(0, deltas, examples=held_out) for _, deltas in best])
    return tuple(
        MeasuredSystem(name, "vector", run.target.system_prompt, deltas, validation=measured(given, objective))
        for (name, deltas), given in zip(best, validated, strict=True)
    )


def _best_of_each(
    tried: Sequence[tuple[str, Deltas]], answers: Sequence[Answers], objective: Objective
) -> list[tuple[str, Deltas]]:
    scored = [
        (measured(given, objective).fitness, name, deltas) for (name, deltas), given in zip(tried, answers, strict=True)
    ]
    names = dict.fromkeys(name for name, _ in tried)
    return [(name, max((one for one in scored if one[1] == name), key=lambda one: one[0])[2]) for name in names]
