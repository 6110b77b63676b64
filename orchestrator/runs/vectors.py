"""Vectors that need no search: `vectors.json` in the output folder.

    end of turn alone          the tokens that end a turn, raised
    log-odds alone             the negative log-odds of each cluster of wasted tokens, times one factor
    end of turn and log-odds   the log-odds times one factor, added to the best of the first line

Each is a line search on the training set, before the first generation.  With CONFIG_INITIAL_DELTAS_PATH="best" the
search starts from the best of all lines.  After the search the best of each line is asked the validation set, where it
stands beside what the search has found: a search that is not better than these was not worth its evaluations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.output import OutputError, OutputFolder, read_state
from orchestrator.report.systems import MeasuredSystem
from orchestrator.runs.changes import count_judge_changes
from orchestrator.runs.measuring import Measurer, measurement_of
from tasks.models import Objective
from tasks.plan import Candidate, Evaluations, ExampleSet
from tasks.validation import Delta

VECTORS_FILE = "vectors.json"
LINES_PLAN, PLAN = "lines", "vectors"
EOT_DELTAS = (1.0, 2.0, 4.0, 8.0, 10.0, 12.0)
"""Logits added to the tokens that end a turn."""
FACTORS = (0.5, 1.0, 2.0, 4.0)
"""What the negative log-odds of each cluster are multiplied by."""
EOT, LOG_ODDS, BOTH = "end of turn alone", "log-odds alone", "end of turn and log-odds"

Deltas = tuple[Delta, ...]


@dataclass(frozen=True)
class Families:
    """The vectors that a clustering allows, each of one delta a cluster: raised ends of a turn, and scaled log-odds."""

    eot: tuple[Deltas, ...] = ()
    log_odds: tuple[Deltas, ...] = ()

    @classmethod
    def of(cls, clusters: int, eot: int | None, log_odds: Sequence[float], bound: float) -> Families:
        """The vectors that this clustering allows.

        eot: the position of the cluster of tokens that end a turn, None where there is none; log_odds: one value a
        cluster, how much likelier it is in wordy answers than in short ones, empty where that is not known; bound: the
        largest absolute delta.
        """
        raised = [tuple(delta if i == eot else 0.0 for i in range(clusters)) for delta in EOT_DELTAS if delta <= bound]
        scaled = [tuple(min(bound, max(-bound, -factor * value)) for value in log_odds) for factor in FACTORS]
        return cls(tuple(raised) if eot is not None else (), tuple(scaled) if any(log_odds) else ())

    def beside(self, raised: Deltas) -> tuple[Deltas, ...]:
        """The log-odds added to `raised`, whose cluster has no log-odds."""
        return tuple(tuple(a + b for a, b in zip(raised, scaled, strict=True)) for scaled in self.log_odds)


@dataclass(frozen=True)
class Vectors:
    """`best`: the best vector of each line on the training set, by the line's name; `start`: the best of all, zeros
    where none is better than the unsteered model.  `judge_changes` is how often the run's judge had been changed.
    """

    best: Mapping[str, Deltas]
    start: Deltas
    evaluations: Evaluations = field(default_factory=Evaluations)
    judge_changes: int = 0


def read_vectors(output: OutputFolder) -> Vectors | None:
    """None before they were measured.  Raises: OutputError for a file that cannot be used."""
    try:
        return read_state(output.path / VECTORS_FILE, Vectors)
    except FileNotFoundError:
        return None


def ensure_vectors(measurer: Measurer, families: Families, clusters: int, output: OutputFolder) -> Vectors:
    """Those of the output folder, measured unless they are there and of the current judge.

    What the search starts from stays, since a second judge must not make it another search.
    Raises: Parked, OutputError.
    """
    judge_changes = count_judge_changes(output)
    known = read_vectors(output)
    if known is not None and {len(deltas) for deltas in (known.start, *known.best.values())} != {clusters}:
        raise OutputError(f"{output.path / VECTORS_FILE} has not one delta for each of {clusters} clusters")
    if known is not None and known.judge_changes == judge_changes:
        return known
    found = measure_lines(measurer, families, clusters)
    if known is not None:
        found = dataclasses.replace(found, start=known.start, evaluations=known.evaluations + found.evaluations)
    found = dataclasses.replace(found, judge_changes=judge_changes)
    output.write_state(VECTORS_FILE, dataclasses.asdict(found))
    return found


def measure_lines(measurer: Measurer, families: Families, clusters: int) -> Vectors:
    """The best vector of each line on the training set, by the search's objective.  Raises: Parked."""
    objective = measurer.store.run(measurer.run_id).objective

    def best_of(vectors: Sequence[Deltas]) -> tuple[float, Deltas]:
        answers = measurer.answers(LINES_PLAN, 0, [Candidate(0, deltas) for deltas in vectors], every_sample=True)
        fitness = [measurement_of(given, objective).fitness for given in answers]
        return max(zip(fitness, vectors, strict=True), key=lambda one: one[0])

    zero = (0.0,) * clusters
    found = {name: best_of(line) for name, line in ((EOT, families.eot), (LOG_ODDS, families.log_odds)) if line}
    if len(found) > 1:
        found[BOTH] = best_of(families.beside(found[EOT][1]))
    # max takes the first of equals: what is not better than zero is not added.
    _, start = max([best_of([zero]), *found.values()], key=lambda one: one[0]) if found else (0.0, zero)
    return Vectors({name: deltas for name, (_, deltas) in found.items()}, start, measurer.evaluations)


def validate_vectors(
    measurer: Measurer, vectors: Vectors, held_out: ExampleSet, objective: Objective, generation: int
) -> tuple[MeasuredSystem, ...]:
    """The best vector of each line with its answers to the set `held_out`, and their fitness by that set's `objective`.

    Raises: Parked.
    """
    if not vectors.best:
        return ()
    candidates = [Candidate(0, deltas, examples=held_out) for deltas in vectors.best.values()]
    answers = measurer.answers(PLAN, generation, candidates)
    prompt = measurer.store.run(measurer.run_id).target.system_prompt
    return tuple(
        MeasuredSystem(name, "vector", prompt, deltas, validation=measurement_of(given, objective))
        for (name, deltas), given in zip(vectors.best.items(), answers, strict=True)
    )
