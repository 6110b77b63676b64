"""The kinds of runs.  Each is one module that holds a `RunKind` under the name `KIND`, and one line of `MODULES`.

The commands that manage a run (`runs`, `status`, `failed`, `retry`, `cancel`) and Flower use only this.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pydantic import FiniteFloat
from typing_extensions import TypedDict

from orchestrator.runs.folder import OutputError, read_state, run_file

if TYPE_CHECKING:
    from orchestrator.farm.connection import FarmConnection

# Imported by name when a run of the kind is looked at, so that commands start without what the kinds need.
MODULES = {
    "evolve": "orchestrator.evolve.run",
    "collect": "orchestrator.collect.run",
    "guide": "orchestrator.guide.run",
    "route": "orchestrator.route.run",
}


Figures = Mapping[str, float | None]
"""Numbers of one kind of run, by name; None where there is none yet."""


Cell = str | float | None


@dataclass(frozen=True)
class ShownTable:
    """A table of what a run has found, for its page: as many cells in each row as there are columns."""

    title: str
    about: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class RunProgress:
    """How far a run is, as its output folder says: `done` of `total` (None: unknown) of what `unit` names."""

    unit: str
    done: int
    total: int | None
    is_finished: bool
    figures: Figures = field(default_factory=dict)


PROGRESS_FILE = "progress.json"


class ProgressFile(TypedDict):
    """progress.json, of every kind with settings in YAML."""

    done: int
    total: int
    is_finished: bool
    figures: dict[str, FiniteFloat | None]


def read_progress_file(folder: Path, unit: str) -> RunProgress:
    try:
        found = read_state(folder / PROGRESS_FILE, ProgressFile, "the next start writes it anew: remove it")
    except FileNotFoundError:
        return RunProgress(unit, 0, None, is_finished=False)
    return RunProgress(unit, found["done"], found["total"], found["is_finished"], found["figures"])


class RunKind(Protocol):
    """What differs between the kinds of runs, for managing a run by its output folder.

    `files` are the names of those from which `progress` is read.
    """

    files: Sequence[str]

    def progress(self, folder: Path) -> RunProgress: ...

    def figure_lines(self, figures: Figures) -> Sequence[tuple[str, str]]:
        """The figures as `orchestrator status` shows them: what, and its value in words."""

    def summary(self, figures: Figures) -> str:
        """The most important figures in a few words, as a table of runs shows them; "" where there is none yet."""

    def tables(self, folder: Path) -> Sequence[ShownTable]:
        """What the run has found so far, for its page; () for a kind whose page has parts of its own."""

    def farm_address(self, folder: Path) -> str:
        """Where the farm of the run answers."""

    def open_farm(self, folder: Path, notify: Callable[[str], None]) -> AbstractContextManager[FarmConnection]:
        """The farm of the run; an embedded one that is down is started."""

    def resume(self, folder: Path, overrides: Sequence[str], only: Sequence[str], *, plain: bool) -> int:
        """Go on with the run, and return the exit status.  Of what has failed, `only` names what is to be retried.

        `overrides` are settings as NAME=VALUE.
        """


def kind_of(folder: Path) -> tuple[str, RunKind]:
    """The kind of the run in an output folder, by name."""
    name = run_file(folder)["kind"]
    if name not in MODULES:
        raise OutputError(f"{folder / 'run.json'}: no kind of runs is called {name!a}")
    kind: RunKind = importlib.import_module(MODULES[name]).KIND
    return name, kind


def check_kind(folder: Path, name: str) -> None:
    """Before anything is written into the folder."""
    if (folder / "run.json").exists() and (other := run_file(folder)["kind"]) != name:
        raise OutputError(f"{folder} holds a run of {other!a}; give another folder")
