"""The kind of runs that `orchestrator guide` starts."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from orchestrator import console
from orchestrator.callbacks import Callbacks
from orchestrator.console import raise_on_signals
from orchestrator.farm.connection import FarmConnection, embedded_address, external_address
from orchestrator.guide.inputs import SETTINGS_FILE, GuideInputs, check_guide, differences, keep_run, load_guide
from orchestrator.guide.report import UNIT, guide_figure_lines, guide_summary, guide_tables
from orchestrator.guide.settings import GuideOptions, GuideSettings, guide_settings_from, read_guide_settings
from orchestrator.report.announcement import highest_cost, provider_at
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.kinds import (
    PROGRESS_FILE,
    Figures,
    RunKind,
    RunProgress,
    ShownTable,
    finished_problem,
    open_run_folder,
    read_progress_file,
)
from orchestrator.settings.value_checks import EMBEDDED
from tasks.common.text import escape_control

if TYPE_CHECKING:
    from orchestrator.runs.session import Ending

Step = Literal["all", "ingest"]


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
    from orchestrator.guide.ingest import ingest, one_sided_holdouts
    from orchestrator.guide.rollouts import StepStopped
    from orchestrator.guide.session import KIND_NAME, LEVELS, run_missions, write_ingest
    from orchestrator.runs.session import Ending, drive, log_to, restored_if_refused, settings_callbacks
    from orchestrator.runs.status import ParkedState, write_parked_state

    templates = check_guide(settings, options)
    inputs = GuideInputs(settings, options, templates, ingest(settings))
    output = OutputFolder(settings.folder)
    told = Callbacks(settings_callbacks(options.callbacks, "--callbacks"))

    def problems() -> list[str]:
        is_over = read_progress_file(output.path, UNIT).is_finished and not resume
        return [*([finished_problem(output.path)] if is_over else []), *differences(output.path, inputs)]

    set_aside = not resume and not settings.output.fail_if_exists
    open_run_folder(output, KIND_NAME, _say, set_aside=set_aside, problems=problems)
    for line in one_sided_holdouts(inputs.tickets, settings):
        _say(line)
    if step == "ingest":
        try:
            output.run_id(KIND_NAME)
            keep_run(output, inputs)
            for name, found in inputs.tickets.items():
                write_ingest(output.path / name, settings, found)
        finally:
            output.close()
        return Ending(console.DONE)
    log_to(output.path / "guide.log", LEVELS[options.log_level], [logging.StreamHandler(sys.stderr)])
    raise_on_signals()
    _say(announcement(settings, options))

    def work() -> None:
        output.run_id(KIND_NAME)  # first of all: files without it are no run
        with restored_if_refused(output.path / SETTINGS_FILE, output.path / PROGRESS_FILE):
            keep_run(output, inputs)
            try:
                lines = run_missions(inputs, output, told, only)
            except StepStopped as error:
                write_parked_state(output, ParkedState(str(error), is_dead_end=True))
                raise
            _say(*lines)

    try:
        budget = f"--set farm.budget_usd={2 * options.budget_usd:g}"
        return drive(output, work, told, again=settings.output.goes_on, raise_budget=budget)
    except StepStopped as error:
        return Ending(console.BROKEN, (str(error),))


def announcement(settings: GuideSettings, options: GuideOptions) -> str:
    """Who judges, criticises and reflects, and what it may cost at most."""
    from orchestrator.guide.session import guide_context

    endpoint = guide_context(settings, options).endpoint
    rules, external = (
        settings.endpoint is not None and settings.endpoint.api_base == EMBEDDED,
        options.farm == "external",
    )

    def named(backend: str) -> str:
        if backend == "target" or endpoint is None or settings.endpoint is None:
            return "the target"
        return provider_at(settings.endpoint.model, endpoint, rules=rules, external=external)

    critic = named(settings.critic.backend) if settings.critic.enabled else "none"
    cost = "free" if endpoint is None else highest_cost(endpoint, rules=rules)
    form = "; the server enforces the three lines" if settings.sampler.constrain == "three_line" else ""
    target, reflector = settings.model.model_name_or_path, named(settings.reflection.backend)
    return escape_control(f"target: {target}; critic: {critic}; reflector: {reflector}; cost: {cost}{form}")


def _say(*lines: str) -> None:
    print(*lines, sep="\n", file=sys.stderr, flush=True)


class GuideKind:
    """A guided run, by its output folder."""

    files: Sequence[str] = (PROGRESS_FILE,)

    def progress(self, folder: Path) -> RunProgress:
        return read_progress_file(folder, UNIT)

    def figure_lines(self, figures: Figures) -> Sequence[tuple[str, str]]:
        return guide_figure_lines(figures)

    def summary(self, figures: Figures) -> str:
        return guide_summary(figures)

    def tables(self, folder: Path) -> Sequence[ShownTable]:
        return guide_tables(folder)

    def farm_address(self, folder: Path) -> str:
        _, options = load_guide(folder)
        if options.farm == "external":
            return external_address(options.redis_url)
        return embedded_address(Path(options.farm_dir))

    def open_farm(self, folder: Path, notify: Callable[[str], None]) -> AbstractContextManager[FarmConnection]:
        from orchestrator.guide.session import open_guide_farm

        return open_guide_farm(*load_guide(folder), notify)

    def resume(self, folder: Path, overrides: Sequence[str], only: Sequence[str], *, plain: bool) -> int:
        settings, options = load_guide(folder, overrides)
        return start_guide(settings, options, resume=True, only=only).exit(settings.folder)


KIND: RunKind = GuideKind()


class StageBPipeline:
    """What `orchestrator guide` does, for a script: `config` is its YAML file, the values of one, or checked settings.

    Raises: SettingsError with everything that is wrong.
    """

    def __init__(
        self, config: str | PathLike[str] | Mapping[str, Any] | GuideSettings, options: GuideOptions | None = None
    ) -> None:
        if isinstance(config, GuideSettings):
            self.settings = config
        elif isinstance(config, Mapping):
            self.settings = guide_settings_from(config)
        else:
            self.settings = read_guide_settings(Path(config))
        self.options = options or GuideOptions()

    def run_all(self) -> Path:
        """The whole run, or what is left of one that was interrupted; returns its folder.

        Raises: SettingsError, OutputError, FarmUnavailable; RunStopped when it parked or was stopped by its data.
        """
        return self.run_step("all")

    def run_step(self, step: Step) -> Path:
        """One step, as `--step`.  Raises: as `run_all`."""
        from orchestrator.api import RunStopped

        ending = start_guide(self.settings, self.options, step=step)
        if ending.status == console.INTERRUPTED:
            raise KeyboardInterrupt(*ending.lines)
        if ending.status != console.DONE:
            raise RunStopped(ending.status, ending.lines)
        return self.settings.folder
