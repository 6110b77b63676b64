"""The kind of runs that `orchestrator guide` starts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from orchestrator import console
from orchestrator.callbacks import Callbacks, load_callbacks
from orchestrator.guide.inputs import GuideInputs, check_guide, differences, ingest, keep_hashes, one_sided_holdouts
from orchestrator.guide.report import UNIT, guide_figure_lines, guide_summary, guide_tables
from orchestrator.guide.settings import GuideOptions, GuideSettings, guide_settings_from
from orchestrator.report.format import highest_cost, provider_at
from orchestrator.runs.kinds import Figures, RunKind, ShownTable, YamlKind
from orchestrator.settings.farm import LEVELS
from orchestrator.settings.options import EMBEDDED
from tasks.common.text import escape_control

if TYPE_CHECKING:
    from orchestrator.farm.connection import FarmSpec
    from orchestrator.runs.session import Ending

Step = Literal["all", "ingest"]


class GuideKind(YamlKind[GuideSettings, GuideOptions]):
    """A guided run, by its output folder."""

    name, unit, options = "guide", UNIT, GuideOptions
    resumable = ("endpoint.api_key_env",)

    def settings_from(self, values: dict[str, Any], folder: Path) -> GuideSettings:
        return guide_settings_from(values)

    def farm_spec(self, settings: GuideSettings, options: GuideOptions) -> FarmSpec:
        from orchestrator.farm.connection import FarmSpec

        return FarmSpec(
            folder=str(options.folder),
            gpu_slots=options.rollout_jobs,
            openai_threads=options.endpoint_jobs,
            cpu_workers=1,
            log_level=LEVELS[options.log_level],
            embedded_endpoint=settings.asks_rules if settings.needs_endpoint else None,
            offline=settings.model.model_name_or_path == EMBEDDED,
        )

    def go_on(self, settings: GuideSettings, options: GuideOptions, only: Sequence[str]) -> int:
        return start_guide(settings, options, resume=True, only=only).exit(settings.folder)

    def figure_lines(self, figures: Figures) -> Sequence[tuple[str, str]]:
        return guide_figure_lines(figures)

    def summary(self, figures: Figures) -> str:
        return guide_summary(figures)

    def tables(self, folder: Path) -> Sequence[ShownTable]:
        return guide_tables(folder)


GUIDE = GuideKind()
KIND: RunKind = GUIDE


def start_guide(
    settings: GuideSettings,
    options: GuideOptions,
    *,
    step: Step = "all",
    resume: bool = False,
    only: Sequence[str] = (),
) -> Ending:
    """Learn, and write to standard error how it goes.

    step: `all` is the whole; `ingest` ends after the shuffles and needs no farm.  Of what has failed, `only` names what
    is to be retried.
    """
    # Imported here: a command that only shows a run does not need them.
    from orchestrator.guide.rollouts import StepStopped
    from orchestrator.guide.session import run_missions, write_ingest
    from orchestrator.runs.session import Ending
    from orchestrator.runs.status import ParkedState, write_parked_state

    templates = check_guide(settings, options)
    inputs = GuideInputs(settings, options, templates, ingest(settings))
    told = Callbacks(load_callbacks(options.callbacks, "--callbacks"))
    output = GUIDE.open_folder(
        settings, settings.output, _say, is_resumed=resume, differing_content=lambda path: differences(path, inputs)
    )
    for line in one_sided_holdouts(inputs.tickets, settings):
        _say(line)
    if step == "ingest":
        try:
            output.run_id(GUIDE.name)
            GUIDE.save(output, settings, options)
            keep_hashes(output, inputs)
            for name, found in inputs.tickets.items():
                write_ingest(output.path / name, settings, found)
        finally:
            output.close()
        return Ending(console.DONE)
    _say(announcement(settings, options))

    level, again = LEVELS[options.log_level], settings.output.goes_on
    try:
        with GUIDE.driving(output, settings, options, told, level, again) as driving:
            keep_hashes(output, inputs)
            try:
                _say(*run_missions(inputs, output, GUIDE.connect(settings, options), told, only))
            except StepStopped as error:
                write_parked_state(output, ParkedState(str(error), is_dead_end=True))
                raise
        return driving.ending
    except StepStopped as error:
        return Ending(console.BROKEN, (str(error),))


def announcement(settings: GuideSettings, options: GuideOptions) -> str:
    """Who judges, criticises and reflects, and what it may cost at most."""
    from orchestrator.guide.session import guide_context

    endpoint = guide_context(settings, options).endpoint
    rules, external = settings.asks_rules, options.farm == "external"

    def named(backend: str) -> str:
        if backend == "target" or endpoint is None or settings.endpoint is None:
            return "the target"
        return provider_at(settings.endpoint.model, endpoint, rules=rules, external=external)

    critic = named(settings.critic.backend) if settings.critic.enabled else "none"
    cost = "free" if endpoint is None else highest_cost(endpoint, rules=rules, external=external)
    form = "; the server enforces the three lines" if settings.sampler.constrain == "three_line" else ""
    target, reflector = settings.model.model_name_or_path, named(settings.reflection.backend)
    return escape_control(f"target: {target}; critic: {critic}; reflector: {reflector}; cost: {cost}{form}")


def _say(*lines: str) -> None:
    print(*lines, sep="\n", file=sys.stderr, flush=True)
