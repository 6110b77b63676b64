"""The kind of runs that `orchestrator route` starts.

Beside its settings the folder of a run has `inputs/`, a copy of each data file: it goes on with the same alone.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.callbacks import Callbacks, load_callbacks
from orchestrator.route.settings import RouteOptions, RouteSettings, route_settings_from
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.kinds import Figures, Notify, RunKind, ShownTable, YamlKind
from orchestrator.settings.farm import LEVELS

if TYPE_CHECKING:
    from orchestrator.farm.connection import FarmSpec
    from orchestrator.runs.session import Ending

log = logging.getLogger(__name__)
INPUTS = "inputs"


class RouteKind(YamlKind[RouteSettings, RouteOptions]):
    """A `route` run, by its output folder."""

    name, unit, options = "route", "steps", RouteOptions
    not_compared = ("output", "data")

    def settings_from(self, values: dict[str, Any], folder: Path) -> RouteSettings:
        if isinstance(data := values.get("data"), dict):
            data |= {name: str(_copy(folder, name)) for name, path in data.items() if path is not None}
        return route_settings_from(values)

    def farm_spec(self, settings: RouteSettings, options: RouteOptions) -> FarmSpec:
        """With as many slots as children may share the card."""
        from orchestrator.farm.connection import FarmSpec

        return FarmSpec(
            folder=str(options.folder),
            gpu_slots=options.gpu_jobs,
            openai_threads=1,
            cpu_workers=1,
            log_level=LEVELS[options.log_level],
            embedded_endpoint=None,
        )

    def go_on(self, settings: RouteSettings, options: RouteOptions, only: Sequence[str]) -> int:
        return start_route(settings, options, resume=True, only=only).exit(settings.folder)

    def figure_lines(self, figures: Figures) -> Sequence[tuple[str, str]]:
        lines = []
        if (total := figures.get("evaluations_total")) is not None:
            lines.append(("evaluated", f"{figures.get('evaluations') or 0:,.0f} of {total:,.0f} deployments"))
        if figures.get("real_hack") is not None:
            hack = f"{_rate(figures, 'real_hack')} under real, {_rate(figures, 'none_hack')} unrouted"
            lines.append(("hack of B", hack))
        return lines

    def summary(self, figures: Figures) -> str:
        if figures.get("real_hack") is None:
            return ""
        return f"hack {_rate(figures, 'real_hack')} against {_rate(figures, 'none_hack')}"

    def tables(self, folder: Path) -> Sequence[ShownTable]:
        from orchestrator.route.report import route_tables

        return route_tables(folder)

    def open_for(
        self, settings: RouteSettings, texts: Mapping[str, str], notify: Notify, *, is_resumed: bool
    ) -> OutputFolder:
        """The open folder of a run of these settings and data."""

        def other_files(folder: Path) -> list[str]:
            return [
                f"data.{name}: the file is another one than in the run in {folder}"
                for name, text in texts.items()
                # as bytes: a line may end with CRLF
                if _copy(folder, name).exists() and _copy(folder, name).read_bytes() != text.encode()
            ]

        return self.open_folder(settings, settings.output, notify, is_resumed=is_resumed, differing_content=other_files)


ROUTE = RouteKind()
KIND: RunKind = ROUTE


def _rate(figures: Figures, name: str) -> str:
    value = figures.get(name)
    return "not measured" if value is None else f"{value:.0%}"


def start_route(
    settings: RouteSettings,
    options: RouteOptions,
    *,
    resume: bool = False,
    only: Sequence[str] = (),
) -> Ending:
    """Train, evaluate and compare, and write to standard error how it goes.

    Of what has failed, `only` names what is to be retried.
    """
    # Imported here: a command that only shows a run does not need them.
    from orchestrator.route.registration import checked_inputs, input_hashes, keep_plan, make_plan
    from orchestrator.route.session import run_route

    texts = checked_inputs(settings)
    plan = make_plan(settings, input_hashes(settings, texts))
    told = Callbacks(load_callbacks(options.callbacks, "--callbacks"))
    output = ROUTE.open_for(settings, texts, lambda line: print(line, file=sys.stderr), is_resumed=resume)

    level, again = LEVELS[options.log_level], settings.output.goes_on
    with ROUTE.driving(output, settings, options, told, level, again) as driving:
        keep_texts(output, texts)
        for line in keep_plan(output, plan):
            print(f"not as registered: {line}", file=sys.stderr)
        for line in run_route(settings, options, texts, output, ROUTE.connect(settings, options), told, only):
            print(line, file=sys.stderr)
    return driving.ending


def keep_texts(output: OutputFolder, texts: Mapping[str, str]) -> None:
    (output.path / INPUTS).mkdir(exist_ok=True)
    for name, text in texts.items():
        if not _copy(output.path, name).exists():
            output.write(f"{INPUTS}/{name}.jsonl", text)


def _copy(folder: Path, name: str) -> Path:
    return folder / INPUTS / f"{name}.jsonl"
