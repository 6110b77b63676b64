"""The parts of an evolution before it is started, and how many answers and calls each of them asks for.

A run is a sequence of parts (docs/runs.md).  The questions of each set, the number of system prompts and the plans of
the search itself say how many answers each part generates.  Nothing is read or started here.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.optimisers.base import search as searched_plans
from orchestrator.runs.baselines import SHORTLIST
from orchestrator.runs.clustering import SHORT_PROMPTS
from orchestrator.runs.final import REPEATS
from orchestrator.runs.line_search import SEARCHED_ON, rungs_of_sets
from orchestrator.runs.prompts import LEAST_PROMPTS, halving_rungs
from orchestrator.runs.search import Search
from orchestrator.runs.vectors import BOTH, EOT, FACTORS, LOG_ODDS, RAISES, with_prompt
from orchestrator.settings import Settings
from orchestrator.settings.references import BEST_PROMPT, BEST_VECTOR
from tasks.models import Score
from tasks.plan import Candidate, Evaluations, ExampleSet, Outcome, Plan

SIMULATED = 40
"""So many generations are planned; later ones count as the mean of the last half of these."""


Length = Literal["plain", "prompts", "searched"]


@dataclass(frozen=True)
class Part:
    """One part of a run: what the target and the endpoint do in it.

    answers: that the target generates; prompts: that it reads for the first time; plans: of which each waits for the
    one before; length: which answers these are, see `Rates`.
    """

    name: str
    evaluations: int
    answers: int
    prompts: int = 0
    plans: int = 1
    reflections: float = 0.0
    merges: float = 0.0
    length: Length = "prompts"


@dataclass(frozen=True)
class GenerationWork:
    """What one generation asks for, or the mean of several."""

    evaluations: float
    reflections: float
    merges: float
    plans: float


def parts_of(
    settings: Settings, works: Sequence[GenerationWork], generations: int, sizes: Mapping[ExampleSet, int], prompts: int
) -> tuple[Part, ...]:
    """The parts of a run from its beginning.

    works: of the generations that were planned, see `planned_work`; generations: how many the run has; sizes: questions
    in each set; prompts: how many system prompts.
    Where a run chooses (which prompts go on, which systems are tested), it is the largest number that it may choose.
    """
    training, test = sizes["training"] * settings.samples, sizes.get("test", 0) * settings.samples
    has_validation = bool(sizes.get("validation"))
    choosing = sizes["validation"] if has_validation else sizes["training"]
    held_out = choosing * settings.samples
    rivals, vectors = min(SHORTLIST, prompts - 1), _vectors(settings, prompts)
    lines = len(vectors)
    by_waste = settings.clusters_by == "waste" and settings.clusters_waste_from is None
    starts = (1 + rivals if settings.target_system_prompt == BEST_PROMPT else 1) if has_validation else 0
    sides = min(SHORT_PROMPTS, prompts - 1) if by_waste else 0
    repeats = REPEATS if settings.target_temperature else 0
    chosen = settings.finalists * (1 + repeats if has_validation else repeats) + repeats  # the start's as well
    tested = 2 + (prompts - 1 if settings.test_every_rival else min(3, prompts - 1)) + min(1, lines)
    searched = _searched_length(settings)
    line_sizes = [sizes[which] for which in SEARCHED_ON if sizes.get(which)]
    in_lines, plans_of_lines = _raced_vectors(vectors, line_sizes)
    raced, rungs = _raced_prompts(settings, choosing, prompts)
    raced *= settings.samples
    return (
        Part("system prompts", prompts, raced, raced, rungs, length="prompts" if prompts > 1 else "plain"),
        Part("reference", starts, starts * training, starts * training, length="prompts" if starts > 1 else "plain"),
        Part("clusters", sides, sides * training, sides * training),
        Part(
            "vectors without search",
            sum(vectors.values()) * len(line_sizes),
            in_lines * settings.samples,
            plans=plans_of_lines,
            length=searched,
        ),
        _search_part(settings, works, generations, training, held_out if has_validation else 0),
        Part("choice", chosen, chosen * held_out, length=searched),
        Part("test", tested if test else 0, tested * test, tested * test),
    )


def _searched_length(settings: Settings) -> Length:
    starts_short = settings.target_system_prompt == BEST_PROMPT or settings.initial_deltas_path == BEST_VECTOR
    return "searched" if starts_short else "plain"


def _raced_prompts(settings: Settings, questions: int, prompts: int) -> tuple[int, int]:
    """How many questions the system prompts answer, and in how many plans."""
    rungs = halving_rungs(questions) if settings.prompts_raced else (questions,)
    answers, before, others = 0, 0, prompts - 1
    for rung in rungs:
        answers += (1 + others) * (rung - before)
        before, others = rung, min(others, max(LEAST_PROMPTS, math.ceil(others / 2)))
    return answers, len(rungs)


def _raced_vectors(vectors: Mapping[str, int], sizes: Sequence[int]) -> tuple[int, int]:
    """How many questions lines of so many vectors answer, and in how many plans.

    sizes: questions in each set that a line is searched on.  The plain model's answers beside each line, those of a
    vector of zeros, and those by which the best of each line is compared after the search have been given before.
    """
    rungs, answers, plans = [sum(rung) for rung in rungs_of_sets(sizes)], 0, 0
    for line, count in vectors.items():
        running, before = count, 0
        for rung in rungs if line in (LOG_ODDS, BOTH) else rungs[-1:]:
            answers += running * (rung - before)
            before, running, plans = rung, math.ceil(running / 2), plans + 1
    return answers, plans


def _vectors(settings: Settings, prompts: int) -> dict[str, int]:
    """How many vectors each line without search has, by its name."""
    if prompts < 2 and settings.prompts_path is None and settings.initial_deltas_path != BEST_VECTOR:
        return {}
    lines = {EOT: len(RAISES)}
    if prompts > 1 and settings.target_system_prompt == BEST_PROMPT and settings.initial_deltas_path == BEST_VECTOR:
        lines[with_prompt(BEST_PROMPT)] = len(RAISES)  # its name is known when the prompts have been measured
    if settings.clusters_by == "waste":
        lines |= {LOG_ODDS: len(FACTORS), BOTH: len(FACTORS)}
    return lines


def _search_part(
    settings: Settings, planned: Sequence[GenerationWork], generations: int, training: int, validation: int
) -> Part:
    later = planned[len(planned) // 2 :]
    works = [*planned[:generations], *[_mean(later)] * (generations - len(planned))]
    evaluations = sum(work.evaluations for work in works)
    measured = generations if settings.patience else 0
    return Part(
        "search",
        round(evaluations) + measured,
        round(evaluations * training) + measured * validation,
        plans=round(sum(work.plans for work in works)) + measured,
        reflections=sum(work.reflections for work in works),
        merges=sum(work.merges for work in works),
        length=_searched_length(settings),
    )


def planned_work(search: Search) -> list[GenerationWork]:
    """The work of the first generations: the plans that the search makes for outcomes that are drawn at random.

    Deltas that have been evaluated, the start's among them, are not evaluated again: their answers are in the store.
    """
    rng, known = random.Random(search.params.seed), {search.params.initial_deltas}
    params = dataclasses.replace(search.params, generations=min(SIMULATED, search.params.generations))
    found: list[GenerationWork] = []
    works: list[GenerationWork] = []
    for turn in searched_plans(search.optimiser, search.optimiser.init(params), params, lambda plan: _drawn(plan, rng)):
        works.append(_work(turn.plan, {outcome.index: outcome for outcome in turn.outcomes}, known))
        if search.optimiser.ends_generation(turn.plan):
            found.append(GenerationWork(*map(sum, zip(*map(dataclasses.astuple, works), strict=True))))
            works = []
    return found


def _work(plan: Plan, outcomes: Mapping[int, Outcome], known: set[tuple[float, ...]]) -> GenerationWork:
    """The work of one plan; what it evaluates is `known` from then on."""
    before = len(known)
    for candidate in plan.candidates:
        delta = outcomes[candidate.index].delta
        known.add(candidate.deltas)
        if candidate.target is not None and delta is not None:
            known.add((*candidate.deltas[: candidate.target], delta, *candidate.deltas[candidate.target + 1 :]))
    return GenerationWork(
        evaluations=len(known) - before,
        reflections=sum(c.target is not None or c.rewrite for c in plan.candidates),
        merges=sum(c.merge is not None for c in plan.candidates),
        plans=bool(plan.candidates),
    )


def _mean(works: Sequence[GenerationWork]) -> GenerationWork:
    rows = [dataclasses.astuple(work) for work in works]
    return GenerationWork(*(sum(column) / len(rows) for column in zip(*rows, strict=True)))


def _drawn(plan: Plan, rng: random.Random) -> list[Outcome]:
    """An outcome for each candidate, with a fitness that is drawn; each call to the reflector gives something new."""

    def score() -> Score:
        return Score(rng.random(), rng.random(), rng.random(), 1 + 100 * rng.random())

    def outcome(candidate: Candidate) -> Outcome:
        mutated = None if candidate.target is None else score()
        return Outcome(
            index=candidate.index,
            scratchpad=candidate.scratchpad,
            pre=score(),
            delta=None if mutated is None else rng.gauss(0, 1),
            mutated_scratchpad=str(rng.random()),
            mut=mutated,
            seconds={},
            deltas=tuple(rng.gauss(0, 1) for _ in candidate.deltas) if candidate.rewrite else None,
            evaluations=Evaluations(computed=1),
        )

    return [outcome(candidate) for candidate in plan.candidates]
