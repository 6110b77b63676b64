"""Vectors that need no search: `vectors.json` in the output folder.

    end of turn alone          the tokens that end a turn, raised
    log-odds alone             the negative log-odds of each cluster of wasted tokens, times one factor
    end of turn and log-odds   the log-odds times one factor, added to the best of the first line

Each is a line search on the training and the validation set together, before the first generation: one of them alone is
so small that two answers decide.  The raised ends of a turn answer all questions, since their fitness differs by a few
answers of a hundred; of the lines with log-odds the worse half stops after a part, as with the prompts.
With CONFIG_INITIAL_DELTAS_PATH="best" the search starts from the best of all lines.  After the search the best of each
line stands beside what the search has found, on the validation set, where it has been chosen in part: a search that is
not better than these was not worth its evaluations.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from orchestrator.output import OutputError, OutputFolder, read_state
from orchestrator.report.systems import MeasuredSystem
from orchestrator.runs.changes import count_judge_changes
from orchestrator.runs.measuring import Answers, Measurer, baseline_score, measurement_of
from orchestrator.runs.prompts import halving_rungs
from tasks.models import Objective
from tasks.objective import relative_to
from tasks.plan import Candidate, Evaluations, ExampleSet
from tasks.validation import Delta

VECTORS_FILE = "vectors.json"
LINES_PLAN, PLAN = "lines", "vectors"
RAISES = (0.25, 0.5, 0.75, 1.0)
"""What is added to the tokens that end a turn, as parts of the largest delta."""
FACTORS = (0.5, 1.0, 2.0, 4.0)
"""What the negative log-odds of each cluster are multiplied by."""
SEARCHED_ON: tuple[ExampleSet, ...] = ("training", "validation")
"""The sets on which a line is searched, as far as a run has them."""
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
        raises = [part * bound for part in RAISES]
        raised = [tuple(delta if i == eot else 0.0 for i in range(clusters)) for delta in raises]
        scaled = [tuple(min(bound, max(-bound, -factor * value)) for value in log_odds) for factor in FACTORS]
        return cls(tuple(raised) if eot is not None else (), tuple(scaled) if any(log_odds) else ())

    def beside(self, raised: Deltas) -> tuple[Deltas, ...]:
        """The log-odds added to `raised`, whose cluster has no log-odds."""
        return tuple(tuple(a + b for a, b in zip(raised, scaled, strict=True)) for scaled in self.log_odds)


@dataclass(frozen=True)
class Vectors:
    """`best`: the best vector of each line on the sets SEARCHED_ON, by the line's name; `start`: the best of all, zeros
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


def ensure_vectors(
    measurer: Measurer, families: Families, clusters: int, plain_prompt: str, output: OutputFolder
) -> Vectors:
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
    found = measure_lines(measurer, families, clusters, plain_prompt)
    if known is not None:
        found = dataclasses.replace(found, start=known.start, evaluations=known.evaluations + found.evaluations)
    found = dataclasses.replace(found, judge_changes=judge_changes)
    output.write_state(VECTORS_FILE, dataclasses.asdict(found))
    return found


def measure_lines(measurer: Measurer, families: Families, clusters: int, plain_prompt: str) -> Vectors:
    """The best vector of each line on the sets SEARCHED_ON together, by the search's objective.

    `plain_prompt` is that of the plain model, which the objective is relative to.  Raises: Parked.
    """
    zero = (0.0,) * clusters
    lines = {EOT: families.eot, LOG_ODDS: families.log_odds}
    found = {name: _best_of(measurer, line, plain_prompt, stops_early(name)) for name, line in lines.items() if line}
    if not found:
        return Vectors({}, zero, measurer.evaluations)
    if len(found) > 1:
        found[BOTH] = _best_of(measurer, families.beside(found[EOT][1]), plain_prompt, stops_early(BOTH))
    # max takes the first of equals: what is not better than zero is not added.
    none = _best_of(measurer, [zero], plain_prompt, raced=False)
    _, start = max([none, *found.values()], key=lambda one: one[0])
    return Vectors({name: deltas for name, (_, deltas) in found.items()}, start, measurer.evaluations)


def stops_early(line: str) -> bool:
    """Whether the worse vectors of a line stop early, by its name."""
    return line != EOT


def _best_of(measurer: Measurer, line: Sequence[Deltas], plain_prompt: str, raced: bool) -> tuple[float, Deltas]:
    """The fitness of a line's best vector on the sets SEARCHED_ON together, and the vector.

    raced: by successive halving, else all are asked all questions.  A part of the questions may be harder than all of
    them: there the objective is relative to the plain model's answers to that part.
    """
    objective = measurer.store.run(measurer.run_id).objective
    sizes = {which: len(measurer.examples[which]) for which in SEARCHED_ON if measurer.examples.get(which)}
    running, ranked = list(line), list[tuple[float, Deltas]]()
    rungs = rungs_of_sets(tuple(sizes.values()))
    for number, rung in enumerate(rungs if raced else rungs[-1:]):
        parts = {which: asked if asked < sizes[which] else 0 for which, asked in zip(sizes, rung, strict=True)}
        candidates = [Candidate(0, (), system_prompt=plain_prompt), *(Candidate(0, deltas) for deltas in running)]
        reference, *answers = _answers_to_parts(measurer, number, candidates, parts)
        plain_here = baseline_score(reference)
        here = relative_to(objective, plain_here.mean_tokens, plain_here.correctness)
        fitness = [measurement_of(given, here).fitness for given in answers]
        ranked = sorted(zip(fitness, running, strict=True), key=lambda one: one[0], reverse=True)
        running = [deltas for _, deltas in ranked[: math.ceil(len(ranked) / 2)]]
    return ranked[0]


def rungs_of_sets(sizes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """How many questions of each set have been asked when the worse half stops: of all sets the share of the first."""
    first = sizes[0]
    return tuple(tuple(math.ceil(rung * size / first) for size in sizes) for rung in halving_rungs(first))


def _answers_to_parts(
    measurer: Measurer, rung: int, candidates: Sequence[Candidate], parts: Mapping[ExampleSet, int]
) -> list[Answers]:
    """The answers of each candidate to the first questions of each set, joined; 0 is all questions of a set.

    Each candidate counts as one evaluation of each set, in the first rung.  Raises: Parked.
    """
    asked = [
        dataclasses.replace(candidate, examples=which, questions=count)
        for candidate in candidates
        for which, count in parts.items()
    ]
    found = measurer.answers(f"{LINES_PLAN}{rung}_", 0, asked, is_counted=rung == 0, every_sample=True)
    return [tuple(chain(*found[i : i + len(parts)])) for i in range(0, len(found), len(parts))]


def validate_vectors(
    measurer: Measurer, vectors: Vectors, held_out: ExampleSet, objective: Objective, generation: int
) -> tuple[MeasuredSystem, ...]:
    """The best vector of each line with its answers to the set `held_out`, and their fitness by that set's `objective`.

    The store has these answers since the lines were searched.
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
