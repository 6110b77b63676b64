"""Vectors that need no search, and what the search starts from: `vectors.json` in the output folder.

    end of turn alone          the tokens that end a turn, raised
    end of turn with "..."     the same with the other system prompt that the search could have started from
    log-odds alone             the negative log-odds of each cluster of wasted tokens, times one factor
    end of turn and log-odds   the log-odds times one factor, added to the best of the first line

Each is a line search (`orchestrator.runs.line_search`) before the first generation.

With CONFIG_INITIAL_DELTAS_PATH="best" the search starts from the plain prompt with the end of turn raised, or without,
whichever has the higher fitness.  The best prompt replaces the plain one, and log-odds are added, only where this is
shown to be better.  A raise cuts the model's own answers, which rarely makes a right one wrong; another prompt and
other biases change many answers, for better and for worse, so that the best of several on a few dozen questions is
partly so by chance.

After the search the best of each line stands beside what the search has found, on the validation set, where it has been
chosen in part: a search that is not better than these was not worth its evaluations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.output import OutputError, OutputFolder, read_state
from orchestrator.report.systems import MeasuredSystem
from orchestrator.runs.line_search import Deltas, Found, LineSearch
from orchestrator.runs.measuring import Measurer, measurement_of
from tasks.models import Objective
from tasks.plan import Candidate, Evaluations, ExampleSet

VECTORS_FILE = "vectors.json"
PLAN = "vectors"
RAISES = (0.25, 0.5, 0.75, 1.0)
"""What is added to the tokens that end a turn, as parts of the largest delta."""
FACTORS = (0.5, 1.0, 2.0, 4.0)
"""What the negative log-odds of each cluster are multiplied by."""
EOT, LOG_ODDS, BOTH = "end of turn alone", "log-odds alone", "end of turn and log-odds"


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
class StartPrompts:
    """`plain` is the whole system prompt of the plain model; `starts` are those that the search may start from, by
    name.  Of two, the first stays unless the second is shown to be better.
    """

    plain: str
    starts: Mapping[str, str]


@dataclass(frozen=True)
class Steered:
    """A vector and the system prompt that belongs to it, by the prompt's name."""

    prompt: str
    deltas: Deltas


@dataclass(frozen=True)
class Vectors:
    """`best`: the best vector of each line on the sets SEARCHED_ON, by the line's name; `start`: what the search starts
    from, one of these or zeros.
    """

    best: Mapping[str, Steered]
    start: Steered
    evaluations: Evaluations = field(default_factory=Evaluations)


def read_vectors(output: OutputFolder) -> Vectors | None:
    """None before they were measured."""
    try:
        return read_state(output.path / VECTORS_FILE, Vectors)
    except FileNotFoundError:
        return None


def ensure_vectors(
    measurer: Measurer, families: Families, clusters: int, prompts: StartPrompts, output: OutputFolder
) -> Vectors:
    """Those of the output folder, measured unless they are there."""
    known = read_vectors(output)
    if known is not None and {len(one.deltas) for one in (known.start, *known.best.values())} != {clusters}:
        raise OutputError(f"{output.path / VECTORS_FILE} has not one delta for each of {clusters} clusters")
    if known is not None:
        return known
    found = measure_lines(measurer, families, clusters, prompts)
    output.write_state(VECTORS_FILE, dataclasses.asdict(found))
    return found


def measure_lines(measurer: Measurer, families: Families, clusters: int, prompts: StartPrompts) -> Vectors:
    """The best vector of each line on the sets SEARCHED_ON together, by the search's objective."""
    zero, search = (0.0,) * clusters, LineSearch(measurer, prompts.plain)
    first, *others = prompts.starts
    if families == Families() and not others:
        return Vectors({}, Steered(first, zero), measurer.evaluations)
    raised, simplest = dict[str, Found](), dict[str, Found]()
    for name, text in prompts.starts.items():
        simplest[name] = search.best_of([zero], text)
        if families.eot:
            raised[name] = search.best_of(families.eot, text)
            simplest[name] = _highest(simplest[name], raised[name])
    tried = _count_alternatives(families, len(prompts.starts))
    prompt = _prompt_to_keep(search, simplest, tried)
    lines = {LOG_ODDS: families.log_odds, BOTH: families.beside(raised[prompt].deltas) if raised else ()}
    scaled = {name: search.best_of(line, prompts.starts[prompt]) for name, line in lines.items() if line}
    shown = [one for one in scaled.values() if search.is_shown_better(one, simplest[prompt], tried)]
    best = {EOT if name == prompt else with_prompt(name): Steered(name, one.deltas) for name, one in raised.items()}
    best |= {line: Steered(prompt, one.deltas) for line, one in scaled.items()}
    return Vectors(best, Steered(prompt, _highest(simplest[prompt], *shown).deltas), measurer.evaluations)


def _highest(*found: Found) -> Found:
    """That of the highest fitness, of equals the first: what is not better than no vector is not added."""
    return max(found, key=lambda one: one.fitness)


def _prompt_to_keep(search: LineSearch, simplest: Mapping[str, Found], tried: int) -> str:
    """The first of the prompts, unless another is shown to be better, each with its raised end of turn or without."""
    first, *others = simplest
    shown = (name for name in others if search.is_shown_better(simplest[name], simplest[first], tried))
    return next(shown, first)


def _count_alternatives(families: Families, prompts: int) -> int:
    """How many vectors are tried beside the first prompt's raised end of turn and no vector."""
    lines_of_log_odds = 2 if families.eot else 1
    return (prompts - 1) * (1 + len(families.eot)) + lines_of_log_odds * len(families.log_odds)


def with_prompt(name: str) -> str:
    """The line of raised ends of a turn with a system prompt that the search did not start from."""
    return f'end of turn with "{name}"'


def validate_vectors(
    measurer: Measurer,
    vectors: Vectors,
    prompts: Mapping[str, str],
    held_out: ExampleSet,
    objective: Objective,
    generation: int,
) -> tuple[MeasuredSystem, ...]:
    """The best vector of each line with its answers to the set `held_out`, and their fitness by that set's `objective`.

    prompts: the whole system prompts by name.  The store has these answers since the lines were searched.
    """
    if not vectors.best:
        return ()
    systems = [MeasuredSystem(line, "vector", prompts[one.prompt], one.deltas) for line, one in vectors.best.items()]
    candidates = [Candidate(0, one.deltas, examples=held_out, system_prompt=one.system_prompt) for one in systems]
    answers = measurer.answers(PLAN, generation, candidates)
    return tuple(
        dataclasses.replace(system, validation=measurement_of(given, objective))
        for system, given in zip(systems, answers, strict=True)
    )
