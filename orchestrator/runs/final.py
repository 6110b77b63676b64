"""After the last generation: the winner is chosen on the validation set, and everything is compared once more.

The order keeps the figures honest: finalists are those that did best on the training set; the validation set decides
whether one of them wins over the start of the search; the test set is asked last, when nothing is left to choose.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.optimisers.base import Best
from orchestrator.output import OutputFolder
from orchestrator.report.assessment import Assessment, assess
from orchestrator.report.statistics import Comparison
from orchestrator.report.systems import MeasuredSystem
from orchestrator.runs.baselines import Baselines
from orchestrator.runs.finalists import PLAN as FINALISTS_PLAN
from orchestrator.runs.finalists import finalists, measure_finalists, read_evaluations, with_best
from orchestrator.runs.held_out import count_test_use, measure_test, systems_to_test
from orchestrator.runs.measuring import Answers, Measurer, baseline_score, measurement_of
from orchestrator.runs.prompts import lossless_prompts
from orchestrator.runs.vectors import Vectors, validate_vectors
from orchestrator.runs.winner import choose_winner
from orchestrator.settings import Settings
from orchestrator.settings.brevity import PLAIN
from orchestrator.settings.references import BEST_PROMPT, BEST_VECTOR
from orchestrator.settings.run import objective_of
from tasks.models import Objective
from tasks.plan import EXAMPLE_SETS, Candidate, ExampleSet

FINAL = "final"  # the name of the plan
REPEATS = 2
"""How often finalists and starts are measured once more where answers are sampled; greedy ones would be the same."""


@dataclass(frozen=True)
class Final:
    """What a finished search comes to.

    `systems` are all that were measured, the winner among them; `test_uses` counts the winners of runs that have been
    tested on this test set, 0 without one.  `assessment` is None without a validation set, on which the systems are
    compared.
    """

    systems: tuple[MeasuredSystem, ...]
    winner: MeasuredSystem
    comparisons: tuple[Comparison, ...]
    test_uses: int
    assessment: Assessment | None


@dataclass(frozen=True)
class Closing:
    """What a finished search is concluded from.  `generation` is the number of its generations."""

    measurer: Measurer
    settings: Settings
    baselines: Baselines
    vectors: Vectors
    output: OutputFolder
    generation: int

    @property
    def _start_prompt(self) -> MeasuredSystem:
        """The system prompt of the search, without deltas."""
        return self.baselines.system(self.vectors.start.prompt)

    def conclude(self, best: Best, initial_deltas: tuple[float, ...]) -> Final:
        """Choose the winner, and compare it.

        best: the search's own; initial_deltas: what the search started from.
        """
        objective, held_out = self.baselines.objective(self.settings), self.baselines.held_out
        evolved = self._finalists(best, objective)
        prompts = self.baselines.prompts
        rivals = validate_vectors(self.measurer, self.vectors, prompts, held_out, objective, self.generation)
        systems = with_distinct_names([*self.baselines.systems, *rivals, *evolved])
        start = self.start(initial_deltas, systems, objective)
        plain = self.baselines.system(PLAIN).validation
        assert plain is not None, "the plain prompt is always measured"
        searched = [system for system in systems if system.kind == "evolved"]
        winner = choose_winner(searched, start, plain, objective, self.settings.seed)
        systems = [start if start is not None and system.name == start.name else system for system in systems]
        systems, uses = self._test(systems, winner)
        winner = next(system for system in systems if system.name == winner.name)
        return Final(tuple(systems), winner, self._compare(winner), uses, self._assess(systems, winner, uses))

    def _assess(self, systems: Sequence[MeasuredSystem], winner: MeasuredSystem, uses: int) -> Assessment | None:
        if self.baselines.held_out != "validation":
            return None
        run, start, settings = self.measurer.run_id, self._start_prompt.name, self.settings
        both = "training and validation"
        choices = {"finalists": "training", "vectors without search": both}
        if settings.target_system_prompt == BEST_PROMPT:
            choices["start"] = both
        return assess(run, systems, winner.name, start, settings.margin, settings.seed, uses, choices)

    def _finalists(self, best: Best, objective: Objective) -> tuple[MeasuredSystem, ...]:
        known = with_best(read_evaluations(self.output.individuals), best, self.generation)
        chosen = finalists(known, best.deltas)
        held_out, generation = self.baselines.held_out, self.generation
        return measure_finalists(self.measurer, chosen, held_out, objective, generation, self._repeats)

    @property
    def _repeats(self) -> int:
        return REPEATS if self.settings.target_temperature else 0

    def start(
        self, initial_deltas: tuple[float, ...], systems: Sequence[MeasuredSystem], objective: Objective
    ) -> MeasuredSystem | None:
        """What the search started from, measured as often as the finalists: a vector without search, or none.

        No vector is the prompt of the search with deltas of zero.  None for a search from the user's own deltas.
        """
        zero = dataclasses.replace(self._start_prompt, deltas=(0.0,) * len(initial_deltas))
        if not any(initial_deltas):
            return self._repeated(zero, objective)
        if self.settings.initial_deltas_path != BEST_VECTOR:
            return None
        of_start = (zero.system_prompt, initial_deltas)
        started = (s for s in systems if s.kind == "vector" and (s.system_prompt, s.deltas) == of_start)
        return self._repeated(next(started), objective)

    def _repeated(self, system: MeasuredSystem, objective: Objective) -> MeasuredSystem:
        """A system that was measured once, measured as often as the finalists."""
        candidate = Candidate(0, system.deltas, examples=self.baselines.held_out, system_prompt=system.system_prompt)
        further = [dataclasses.replace(candidate, repeat=1 + i) for i in range(self._repeats)]
        answers = self.measurer.answers(FINALISTS_PLAN, self.generation, further) if further else []
        return dataclasses.replace(system, repeats=tuple(measurement_of(given, objective) for given in answers))

    def _test(self, systems: list[MeasuredSystem], winner: MeasuredSystem) -> tuple[list[MeasuredSystem], int]:
        """The systems with what the test set shows of some, and how often it has been asked for a winner."""
        if not self.measurer.examples.get("test"):
            return systems, 0
        uses = count_test_use(self.measurer.store, self.measurer.run_id, winner)
        lossless, *_ = lossless_prompts(self.baselines.systems, self.settings.margin)
        also = {self.vectors.start.prompt, lossless.name}
        chosen = systems_to_test(systems, winner, also)
        tested = {system.name: system for system in measure_test(self.measurer, chosen, self.settings, self.generation)}
        return [tested.get(system.name, system) for system in systems], uses

    def _title(self, which: ExampleSet) -> str:
        """A set as the report names it, and what it was used for."""
        if which == self.baselines.held_out:
            return f"{which} set, on which the winner was chosen"
        return f"{which} set, asked after all choices" if which == "test" else f"{which} set"

    def _compare(self, winner: MeasuredSystem) -> tuple[Comparison, ...]:
        """The plain model and the winner side by side, on every set of questions."""
        sets = [which for which in EXAMPLE_SETS if self.measurer.examples.get(which)]
        pairs = [
            Candidate(0, system.deltas, examples=which, system_prompt=system.system_prompt)
            for which in sets
            for system in (self.baselines.system(PLAIN), winner)
        ]
        answers = self.measurer.answers(FINAL, self.generation, pairs)
        return tuple(
            _comparison(self._title(which), self.settings, answers[2 * i], answers[2 * i + 1])
            for i, which in enumerate(sets)
        )


def with_distinct_names(systems: Sequence[MeasuredSystem]) -> list[MeasuredSystem]:
    """The systems with distinct names: a later one of a name that is taken gets its kind behind it."""
    named: dict[str, MeasuredSystem] = {}
    for system in systems:
        name = system.name
        while name in named:
            name += f" ({system.kind})"
        named[name] = dataclasses.replace(system, name=name)
    return list(named.values())


def _comparison(name: str, settings: Settings, before: Answers, after: Answers) -> Comparison:
    objective = objective_of(settings, baseline_score(before))
    return Comparison(
        name=name,
        before=before,
        after=after,
        fitness_before=measurement_of(before, objective).fitness,
        fitness_after=measurement_of(after, objective).fitness,
    )
