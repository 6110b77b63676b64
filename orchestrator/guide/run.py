"""The kind of runs that `orchestrator guide` starts."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orchestrator import console
from orchestrator.callbacks import Callbacks
from orchestrator.console import raise_on_signals
from orchestrator.farm.connection import FarmConnection, embedded_address, external_address
from orchestrator.guide.existing import SETTINGS_FILE, keep_run, load_guide, prepare_folder
from orchestrator.guide.options import GuideOptions
from orchestrator.guide.report import PROGRESS_FILE, read_progress
from orchestrator.guide.settings import GuideSettings
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.kinds import Figures, RunKind, RunProgress, ShownTable

if TYPE_CHECKING:
    from orchestrator.guide.ingest import Ingested
    from orchestrator.guide.inputs import Templates
    from orchestrator.runs.session import Ending

log = logging.getLogger(__name__)
Step = Literal["all", "ingest"]
KIND_NAME = "guide"


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
    from orchestrator.guide.build import LEVELS, guide_announcement
    from orchestrator.guide.ingest import ingest, one_sided_holdouts
    from orchestrator.guide.inputs import check_guide
    from orchestrator.guide.rollouts import StepStopped
    from orchestrator.guide.session import Guider
    from orchestrator.runs.session import Ending, drive, log_to, restored_if_refused, settings_callbacks
    from orchestrator.runs.status import ParkedState, write_parked_state

    templates = check_guide(settings, options)
    tickets = ingest(settings)
    output = OutputFolder(settings.folder)
    told = Callbacks(settings_callbacks(options.callbacks, "--callbacks"))
    prepare_folder(output, settings, tickets, templates, lambda line: print(line, file=sys.stderr), resume=resume)
    for line in one_sided_holdouts(tickets, settings):
        print(line, file=sys.stderr)
    if step == "ingest":
        return _ingest_only(settings, options, tickets, templates, output)
    log_to(output.path / "guide.log", LEVELS[options.log_level], [logging.StreamHandler(sys.stderr)])
    raise_on_signals()
    print(guide_announcement(settings, options), file=sys.stderr, flush=True)

    def work() -> None:
        output.run_id(KIND_NAME)  # first of all: files without it are no run
        with restored_if_refused(output.path / SETTINGS_FILE, output.path / PROGRESS_FILE):
            keep_run(output, settings, options, tickets, templates)
            try:
                lines = Guider(settings, options, tickets, templates, output, told, tuple(only)).run()
            except StepStopped as error:
                write_parked_state(output, ParkedState(str(error), is_dead_end=True))
                raise
            print(*lines, sep="\n", file=sys.stderr)

    try:
        budget = f"--set farm.budget_usd={2 * options.budget_usd:g}"
        return drive(output, work, told, again=settings.output.goes_on, raise_budget=budget)
    except StepStopped as error:
        return Ending(console.BROKEN, (str(error),))


def end_guide(ending: Ending, settings: GuideSettings) -> int:
    """Print the run's folder, or why it did not end, and return the exit status."""
    if ending.status == console.DONE:
        print(settings.folder)
    return ending.exit()


def _ingest_only(
    settings: GuideSettings, options: GuideOptions, tickets: Ingested, templates: Templates, output: OutputFolder
) -> Ending:
    """Name the run and write its tickets, shuffles and first statistics; the whole run goes on from there."""
    from orchestrator.guide.session import write_ingest
    from orchestrator.runs.session import Ending

    try:
        output.run_id(KIND_NAME)
        keep_run(output, settings, options, tickets, templates)
        for name, found in tickets.items():
            write_ingest(output.path / name, settings, found)
    finally:
        output.close()
    return Ending(console.DONE)


class GuideKind:
    """A guided run, by its output folder."""

    files: Sequence[str] = (PROGRESS_FILE,)

    def progress(self, folder: Path) -> RunProgress:
        return read_progress(folder)

    def figure_lines(self, figures: Figures) -> Sequence[tuple[str, str]]:
        if figures.get("proposals") is None:
            return ()

        def share(name: str) -> str:
            value = figures.get(name)
            return "not measured" if value is None else f"{value:.0%}"

        applied, proposals, wrong = (figures.get(name) or 0 for name in ("applied", "proposals", "wrong"))
        paired, unpaired = share("precision_paired"), share("precision_unpaired")
        return (
            ("edits", f"{applied:,.0f} applied of {proposals:,.0f} proposed"),
            ("precision", f"{paired} paired, {unpaired} unpaired, of applied edits with a next batch"),
            ("recall", f"{share('recall')} of {wrong:,.0f} wrongly judged tickets were named"),
            ("three lines", f"{share('format_validity')} of the candidates"),
        )

    def summary(self, figures: Figures) -> str:
        if (proposals := figures.get("proposals")) is None:
            return ""
        return f"{figures.get('applied') or 0:,.0f} of {proposals:,.0f} edits applied"

    def tables(self, folder: Path) -> Sequence[ShownTable]:
        from orchestrator.guide.report import guide_tables

        return guide_tables(folder)

    def farm_address(self, folder: Path) -> str:
        _, options = load_guide(folder)
        if options.farm == "external":
            return external_address(options.redis_url)
        return embedded_address(Path(options.farm_dir))

    def open_farm(self, folder: Path, notify: Callable[[str], None]) -> AbstractContextManager[FarmConnection]:
        from orchestrator.guide.build import open_guide_farm

        return open_guide_farm(*load_guide(folder), notify)

    def resume(self, folder: Path, overrides: Sequence[str], only: Sequence[str], *, plain: bool) -> int:
        settings, options = load_guide(folder, overrides)
        return end_guide(start_guide(settings, options, resume=True, only=only), settings)


KIND: RunKind = GuideKind()
