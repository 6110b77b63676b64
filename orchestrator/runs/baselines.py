"""The prompts that are measured before a search, and the best of them: `baselines.json` in the output folder.

First the prompts on the validation set; then, on the training set, the plain model, to which the objective is relative,
and the prompts that the search may start from.  A run that is resumed goes on with the choice in the file, whatever a
second measurement would give.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.output import OutputFolder, read_state
from orchestrator.report.systems import MeasuredSystem, Measurement
from orchestrator.runs.measuring import Measurer, baseline_score, measurement_of
from orchestrator.runs.prompts import best_first, measure_prompts, prompt_systems, shortest_near_best
from orchestrator.runs.vectors import StartPrompts
from orchestrator.settings import Settings
from orchestrator.settings.brevity import PLAIN, prompts_of
from orchestrator.settings.population import read_fork
from orchestrator.settings.references import BEST_PROMPT, BEST_VECTOR, FORK, FORK_FILE
from orchestrator.settings.run import objective_of
from tasks.models import Objective, Run, Score
from tasks.plan import Candidate, Evaluations, ExampleSet

REFERENCE = "reference"
SHORTLIST = 2
"""How many of the prompts are asked the training set as well."""
PROMPT_SHARE = 0.5
"""Of the margin, what the best prompt may lose against the one with the most right answers; the vector has the rest."""


@dataclass(frozen=True)
class Baselines:
    """`systems`: the prompts on the set `held_out`, the plain one first; `best_prompt`: the name of the best one alone,
    from which the search starts unless the plain prompt stays (`orchestrator.runs.vectors`).

    `plain` is the plain prompt on the training set.  `held_out` is "training" where there is no validation set.
    """

    held_out: ExampleSet
    systems: tuple[MeasuredSystem, ...]
    best_prompt: str
    plain: Measurement
    evaluations: Evaluations

    def __post_init__(self) -> None:
        measured_ones = {system.name for system in self.systems if system.validation is not None}
        if missing := {PLAIN, self.best_prompt} - measured_ones:
            raise ValueError(f"{', '.join(sorted(missing))} is not among the measured systems")

    @property
    def prompts(self) -> dict[str, str]:
        """The whole system prompts by name."""
        return {system.name: system.system_prompt for system in self.systems}

    def system(self, name: str) -> MeasuredSystem:
        return next(system for system in self.systems if system.name == name)

    def run(self, run: Run, settings: Settings, prompt: str) -> Run:
        """The run as the search has it: the system prompt of this name, and its objective."""
        target = dataclasses.replace(run.target, system_prompt=self.prompts[prompt])
        return dataclasses.replace(run, target=target, objective=_relative_to(self.plain, settings))

    def start_prompts(self, settings: Settings) -> StartPrompts:
        """The plain and the best one; the best alone for a search that does not start from the best vector."""
        names = (PLAIN, self.best_prompt) if settings.initial_deltas_path == BEST_VECTOR else (self.best_prompt,)
        return StartPrompts(self.prompts[PLAIN], {name: self.prompts[name] for name in names})

    def objective(self, settings: Settings) -> Objective:
        """That of the set `held_out`, on which systems are compared: relative to the plain model there."""
        plain = self.system(PLAIN).validation
        assert plain is not None, "the plain prompt is always measured"
        return _relative_to(plain, settings)


def _relative_to(plain: Measurement, settings: Settings) -> Objective:
    return objective_of(settings, Score(0.0, 0.0, plain.right / len(plain.correct), plain.mean_tokens))


def read_baselines(output: OutputFolder) -> Baselines | None:
    try:
        return read_state(output.baselines, Baselines)
    except FileNotFoundError:
        return None


def prompts_to_measure(settings: Settings, output: OutputFolder) -> dict[str, str]:
    """The system prompts of a run by name: a run that has been stopped keeps its own, whatever the file has now."""
    known = read_baselines(output)
    return prompts_of(settings) if known is None else known.prompts


def ensure_baselines(measurer: Measurer, settings: Settings, output: OutputFolder) -> Baselines:
    """Those of the output folder, measured unless they are there."""
    if (known := read_baselines(output)) is not None:
        return known
    found = measure_baselines(measurer, settings, prompts_of(settings), _forked_prompt(settings, output))
    output.write_state("baselines.json", dataclasses.asdict(found))
    return found


def _forked_prompt(settings: Settings, output: OutputFolder) -> str | None:
    """The prompt that a fork's vectors belong to; None for another run, and where that prompt is not known."""
    if settings.initial_deltas_path != FORK or settings.target_system_prompt != BEST_PROMPT:
        return None
    prompt = read_fork(output.path / FORK_FILE)["prompt"]
    return prompt if prompt in prompts_of(settings) else None


def measure_baselines(
    measurer: Measurer, settings: Settings, prompts: Mapping[str, str], best: str | None = None
) -> Baselines:
    """Measure the prompts and choose the best, unless `best` names it already."""
    held_out: ExampleSet = "validation" if measurer.examples.get("validation") else "training"
    answers = measure_prompts(measurer, prompts, held_out)
    systems = prompt_systems(prompts, answers, objective_of(settings, baseline_score(answers[PLAIN])))
    if best is None and settings.target_system_prompt == BEST_PROMPT:
        others = [name for name in prompts if name != PLAIN]
        shortlist = best_first(others, answers, settings.margin)[:SHORTLIST]
    else:
        shortlist = [best or PLAIN]
    names = list(dict.fromkeys((PLAIN, *shortlist)))
    asked = [Candidate(0, (), system_prompt=prompts[name]) for name in names]
    answers_to_training = measurer.answers(REFERENCE, 0, asked)
    objective = objective_of(settings, baseline_score(answers_to_training[0]))
    on_training = {
        name: measurement_of(given, objective) for name, given in zip(names, answers_to_training, strict=True)
    }
    if best is None:
        on_validation = {system.name: system.validation for system in systems}
        sets = {name: [one for one in (on_validation[name], on_training[name]) if one is not None] for name in names}
        best = shortest_near_best(sets, PROMPT_SHARE * settings.margin)
    return Baselines(
        held_out=held_out,
        systems=systems,
        best_prompt=best,
        plain=on_training[PLAIN],
        evaluations=measurer.evaluations,
    )
