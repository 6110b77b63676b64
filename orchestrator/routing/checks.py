"""What the settings of `route`, its files and the machine must keep together, before anything is started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from orchestrator.routing.settings import RouteSettings
from orchestrator.settings import SettingsError
from orchestrator.settings.file_checks import unwritable_folder
from tasks.dataset import DatasetError
from tasks.route.names import PROGRAMS
from tasks.route.texts import pairs_of
from tasks.routing.modes import LOOPHOLES, MODES
from tasks.routing.problems import load_problems


def check_route(settings: RouteSettings, texts: Mapping[str, str]) -> None:
    """Raises: SettingsError with all problems."""
    unwritable = unwritable_folder("output.root", Path(settings.output.root))
    if problems := [*_mode_problems(settings), *_data_problems(settings, texts), *unwritable]:
        raise SettingsError(problems)


def _mode_problems(settings: RouteSettings) -> Iterator[str]:
    if settings.world != PROGRAMS:
        return
    for name, modes, known in (
        ("training.modes", settings.training.modes, LOOPHOLES),
        ("evaluation.modes", settings.evaluation.modes, MODES),
    ):
        if unknown := [mode for mode in modes if mode not in known]:
            yield f"{name}: {unknown[0]!r} is no mode; there are: {', '.join(known)}"


def _data_problems(settings: RouteSettings, texts: Mapping[str, str]) -> Iterator[str]:
    """Every bad line of the problems, and of pairs whose problems can be read."""
    if settings.world != PROGRAMS:
        return
    try:
        problems = load_problems(settings.files["problems"])
    except DatasetError as error:
        yield f"data.problems: {error}"
        return
    for name in ("pairs", "placebo_pairs"):
        if name in texts:
            try:
                pairs_of(texts[name], str(settings.files[name]), problems)
            except DatasetError as error:
                yield f"data.{name}: {error}"
