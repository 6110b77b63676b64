"""What the settings of `route`, its files and the machine must keep together, before anything is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from orchestrator.route.build import read_texts, world_source
from orchestrator.route.settings import RouteSettings
from orchestrator.settings import SettingsError
from orchestrator.settings.farm import unwritable_folder
from tasks.dataset import DatasetError
from tasks.route.claims import PROGRAMS
from tasks.route.problems import (
    KNOWN_MODE,
    LOOPHOLES,
    MODES,
    NO_LOOPHOLE,
    Part,
    Problem,
    in_part,
    parse_pairs,
    parse_problems,
)

T = TypeVar("T")


def checked_inputs(settings: RouteSettings, *, is_planned: bool = False) -> tuple[dict[str, str], str]:
    """The texts of the data files, by the name of their setting, and the hash of the world's source.

    `is_planned`: nothing will be written, so the output folder need not be there.
    """
    problems = list(_mode_problems(settings))
    texts: dict[str, str] = _collected(problems, lambda: read_texts(settings), {})
    source = _collected(problems, lambda: world_source(settings), "")
    problems += _data_problems(settings, texts)
    if not is_planned:
        problems += unwritable_folder("output.root", Path(settings.output.root))
    if problems:
        raise SettingsError(problems)
    return texts, source


def _collected(problems: list[str], read: Callable[[], T], otherwise: T) -> T:
    """What `read` returns; what it finds wrong is added to `problems`."""
    try:
        return read()
    except SettingsError as error:
        problems += error.problems
        return otherwise


def _mode_problems(settings: RouteSettings) -> Iterator[str]:
    if settings.world != PROGRAMS:
        return
    for name, modes, known in (
        ("training.modes", settings.training.modes, LOOPHOLES),
        ("evaluation.modes", settings.evaluation.modes, MODES),
    ):
        for mode in modes:
            if mode not in known:
                yield f"{name}: {mode!r} is no mode; there are: {', '.join(known)}"
    if (held_out := settings.claims.held_out_mode) in (KNOWN_MODE, NO_LOOPHOLE):
        what = "that of the pairs and of the pool" if held_out == KNOWN_MODE else "that of prompts without a loophole"
        yield f"claims.held_out_mode: {held_out!r} is {what}, so it cannot be held out"


def _data_problems(settings: RouteSettings, texts: Mapping[str, str]) -> Iterator[str]:
    """Every bad line of the problems and of the pairs."""
    if settings.world != PROGRAMS:
        return
    problems: list[Problem] = []
    if "problems" in texts:
        try:
            problems = parse_problems(texts["problems"], str(settings.files["problems"]))
            yield from _part_problems(settings, problems)
        except DatasetError as error:
            yield f"data.problems: {error}"
    for name in ("pairs", "placebo_pairs"):
        if name in texts:
            try:
                parse_pairs(texts[name], str(settings.files[name]), problems)
            except DatasetError as error:
                yield f"data.{name}: {error}"


def _part_problems(settings: RouteSettings, problems: list[Problem]) -> Iterator[str]:
    """Each part that is asked has a problem of the levels."""
    training = settings.training
    parts: dict[Part, bool] = {
        "train": training.plain_share > 0 or any(mode != KNOWN_MODE for mode in training.modes),
        "pool": KNOWN_MODE in training.modes or training.teacher_rows > 0,
        "evaluation": True,
    }
    for part, is_asked in parts.items():
        if is_asked and not in_part(problems, part, training.levels):
            yield f"data.problems: none of part {part} has one of training.levels, {list(training.levels)}"
