"""What the settings of `route`, its files and the machine must keep together, before anything is started."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from orchestrator.routing.settings import RouteSettings
from orchestrator.settings import SettingsError
from tasks.dataset import DatasetError
from tasks.route.names import PROGRAMS
from tasks.route.texts import pairs_of
from tasks.routing.modes import LOOPHOLES, MODES
from tasks.routing.problems import load_problems


def check_route(settings: RouteSettings, texts: Mapping[str, str]) -> None:
    """Raises: SettingsError with all problems."""
    if problems := [*_mode_problems(settings), *_data_problems(settings, texts), *_output_problems(settings)]:
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


def _output_problems(settings: RouteSettings) -> Iterator[str]:
    """The folder can be written, before anything is spent."""
    root = Path(settings.output.root)
    try:
        if root.exists() and not root.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        yield f"output.root: {root}: {error.strerror}"
