"""The kind of runs that `orchestrator route` starts."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from orchestrator.callbacks import Callback, Callbacks
from orchestrator.console import raise_on_signals
from orchestrator.farm.connection import FarmConnection, embedded_address, external_address
from orchestrator.route.existing import SETTINGS_FILE, keep_route, load_route, prepare_route_folder
from orchestrator.route.progress import PROGRESS_FILE, read_route_progress, route_figure_lines, route_summary
from orchestrator.route.settings import RouteOptions, RouteSettings
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.kinds import Figures, RunKind, RunProgress, ShownTable
from orchestrator.settings import SettingsError

if TYPE_CHECKING:
    from orchestrator.runs.session import Ending

log = logging.getLogger(__name__)


def start_route(
    settings: RouteSettings,
    options: RouteOptions,
    *,
    resume: bool = False,
    only: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    stream: TextIO | None = None,
) -> Ending:
    """Train, evaluate and compare, and write to `stream` (standard error) how it goes.

    Of what has failed, `only` names what is to be retried.
    """
    # Imported here: a command that only shows a run does not need them.
    from orchestrator.route.build import LEVELS
    from orchestrator.route.checks import checked_inputs
    from orchestrator.route.plan import input_hashes, keep_plan, make_plan
    from orchestrator.route.session import Router
    from orchestrator.runs.session import drive, log_to, restored_if_refused, settings_callbacks

    stream = stream or sys.stderr
    if options.redis_url and options.farm != "external":
        raise SettingsError(["--redis-url: goes with --farm external, and only with that"])
    texts, source = checked_inputs(settings)
    plan = make_plan(settings, input_hashes(settings, texts, source))
    output = OutputFolder(settings.folder)
    told = Callbacks([*settings_callbacks(options.callbacks, "--callbacks"), *callbacks])
    prepare_route_folder(output, settings, texts, lambda line: print(line, file=stream), resume=resume)
    log_to(output.path / "route.log", LEVELS[options.log_level], [logging.StreamHandler(stream)])
    raise_on_signals()

    def work() -> None:
        output.run_id("route")  # first of all: files without it are no run
        with restored_if_refused(output.path / SETTINGS_FILE, output.path / PROGRESS_FILE):
            keep_route(output, settings, options, texts)
            for line in keep_plan(output, plan):
                print(f"not as registered: {line}", file=stream)
            for line in Router(settings, options, texts, output, told, tuple(only)).run():
                print(line, file=stream)

    return drive(output, work, told, again=settings.output.goes_on)


def end_route(ending: Ending, settings: RouteSettings) -> int:
    """Print the run's folder, or why it did not end, and return the exit status."""
    from orchestrator import console

    if ending.status == console.DONE:
        print(settings.folder)
    return ending.exit()


class RouteKind:
    """A `route` run, by its output folder."""

    files: Sequence[str] = (PROGRESS_FILE,)

    def progress(self, folder: Path) -> RunProgress:
        return read_route_progress(folder)

    def figure_lines(self, figures: Figures) -> Sequence[tuple[str, str]]:
        return route_figure_lines(figures)

    def summary(self, figures: Figures) -> str:
        return route_summary(figures)

    def tables(self, folder: Path) -> Sequence[ShownTable]:
        from orchestrator.route.report import route_tables

        return route_tables(folder)

    def farm_address(self, folder: Path) -> str:
        _, options = load_route(folder)
        if options.farm == "external":
            return external_address(options.redis_url)
        return embedded_address(Path(options.farm_dir))

    def open_farm(self, folder: Path, notify: Callable[[str], None]) -> AbstractContextManager[FarmConnection]:
        from orchestrator.route.build import open_route_farm

        return open_route_farm(load_route(folder)[1], notify)

    def resume(self, folder: Path, overrides: Sequence[str], only: Sequence[str], *, plain: bool) -> int:
        settings, options = load_route(folder, overrides)
        return end_route(start_route(settings, options, resume=True, only=only), settings)


KIND: RunKind = RouteKind()
