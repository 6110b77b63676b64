"""The kinds of runs.  Each is one module that holds a `RunKind` under the name `KIND`, and a name in `KINDS`.

The commands that manage a run (`runs`, `status`, `failed`, `retry`, `cancel`) and Flower use only this.
"""

from __future__ import annotations

import dataclasses
import importlib
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TextIO, TypeVar

import yaml
from pydantic import FiniteFloat
from typing_extensions import TypedDict

from orchestrator.console import raise_on_signals
from orchestrator.runs.folder import OutputError, OutputFolder, find_json, run_file
from orchestrator.settings import SettingsError
from orchestrator.settings.documents import flatten, override_values, pop_section, read_mapping
from orchestrator.settings.farm import FARM_CHECKS, EndpointOptions, FarmOptions, RunOutput
from tasks.common.text import quote

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from orchestrator.callbacks import Callbacks
    from orchestrator.farm.connection import FarmConnection, FarmSpec
    from orchestrator.runs.session import Driving

log = logging.getLogger(__name__)

KINDS = ("evolve", "collect", "guide", "route")
"""Rooms of `orchestrator` whose module `run` is imported when a run of the kind is looked at, so that commands start
without what the kinds need."""
SETTINGS_FILE, PROGRESS_FILE, STEP_FILE = "settings.yaml", "progress.json", "step.json"

S = TypeVar("S", bound="DataclassInstance")
O = TypeVar("O", bound=FarmOptions)  # noqa: E741
Notify = Callable[[str], None]
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
    """How far a run is, as its output folder says: `done` of `total` (None: unknown) of what `unit` names.

    `step` is what a process that drives it is at, in words, or "".
    """

    unit: str
    done: int
    total: int | None
    is_finished: bool
    figures: Figures = field(default_factory=dict)
    step: str = ""


class RunKind(ABC):
    """What differs between the kinds of runs, for managing a run by its output folder."""

    name: ClassVar[str]

    @abstractmethod
    def progress(self, folder: Path) -> RunProgress: ...

    def figure_lines(self, figures: Figures) -> Sequence[tuple[str, str]]:
        """The figures as `orchestrator status` shows them: what, and its value in words."""
        return ()

    def summary(self, figures: Figures) -> str:
        """The most important figures in a few words, as a table of runs shows them; "" where there is none yet."""
        return ""

    def tables(self, folder: Path) -> Sequence[ShownTable]:
        """What the run has found so far, for its page; () for a kind whose page has parts of its own."""
        return ()

    @abstractmethod
    def farm_address(self, folder: Path) -> str:
        """Where the farm of the run answers."""

    @abstractmethod
    def open_farm(self, folder: Path, notify: Notify) -> AbstractContextManager[FarmConnection]:
        """The farm of the run; an embedded one that is down is started."""

    @abstractmethod
    def resume(self, folder: Path, overrides: Sequence[str], only: Sequence[str], *, plain: bool) -> int:
        """Go on with the run, and return the exit status.  Of what has failed, `only` names what is to be retried.

        `overrides` are settings as NAME=VALUE.
        """


def kind_of(folder: Path) -> RunKind:
    """The kind of the run in an output folder."""
    name = run_file(folder)["kind"]
    if name not in KINDS:
        raise OutputError(f"{folder / 'run.json'}: no kind of runs is called {name!a}")
    kind: RunKind = importlib.import_module(f"orchestrator.{name}.run").KIND
    return kind


class ProgressFile(TypedDict):
    """progress.json, of every kind with settings in YAML."""

    done: int
    total: int
    is_finished: bool
    figures: dict[str, FiniteFloat | None]


class YamlKind(RunKind, Generic[S, O]):
    """A kind of run whose settings are a YAML file: collect, guide and route.

    The output folder has them in `settings.yaml`, those of the farm in its section `farm`; `progress.json` says how far
    the run is.  `unit` is what `done` counts.  `resumable` names the settings that may change before a run is resumed,
    because they alter no result; the options of the farm may as well, but for those of `fixed`.
    """

    unit: ClassVar[str]
    options: type[O]
    resumable: ClassVar[Sequence[str]] = ()
    fixed: ClassVar[Sequence[str]] = ()
    not_compared: ClassVar[Sequence[str]] = ("output",)
    """Sections that may differ between a run and a command that goes on with it."""

    @abstractmethod
    def settings_from(self, values: dict[str, Any], folder: Path) -> S:
        """The saved settings; `folder` is where the run is now."""

    @abstractmethod
    def farm_spec(self, settings: S, options: O) -> FarmSpec:
        """The embedded farm."""

    @abstractmethod
    def go_on(self, settings: S, options: O, only: Sequence[str]) -> int:
        """Go on with the run, and return the exit status."""

    def progress(self, folder: Path) -> RunProgress:
        found = find_json(folder / PROGRESS_FILE, ProgressFile, "the next start writes it anew: remove it")
        return RunProgress(self.unit, **found) if found else RunProgress(self.unit, 0, None, is_finished=False)

    def connect(self, settings: S, options: O, notify: Notify = log.info) -> AbstractContextManager[FarmConnection]:
        from orchestrator.farm.connection import embedded_farm, external_farm

        if options.farm == "external":
            return external_farm(options.redis_url, notify)
        return embedded_farm(self.farm_spec(settings, options), notify)

    def farm_address(self, folder: Path) -> str:
        from orchestrator.farm.connection import embedded_address, external_address

        _, options = self.load(folder)
        return external_address(options.redis_url) if options.farm == "external" else embedded_address(options.folder)

    def open_farm(self, folder: Path, notify: Notify) -> AbstractContextManager[FarmConnection]:
        return self.connect(*self.load(folder), notify)

    def resume(self, folder: Path, overrides: Sequence[str], only: Sequence[str], *, plain: bool) -> int:
        return self.go_on(*self.load(folder, overrides), only)

    def save(self, output: OutputFolder, settings: S, options: O) -> None:
        values = {**dataclasses.asdict(settings), "farm": dataclasses.asdict(options)}
        output.write(SETTINGS_FILE, yaml.safe_dump(values, sort_keys=False, allow_unicode=True))

    def load(self, folder: Path, overrides: Sequence[str] = ()) -> tuple[S, O]:
        """What the run was started with, and what is changed of it."""
        values = read_mapping(folder / SETTINGS_FILE)
        farm = [f"farm.{field.name}" for field in dataclasses.fields(self.options) if field.name not in self.fixed]
        override_values(values, overrides, (*self.resumable, *farm))
        options = pop_section(values, "farm", self.options, FARM_CHECKS)
        if isinstance(where := values.get("output"), dict):  # wherever the folder is now
            where |= {"root": str(folder.resolve().parent), "run_id": folder.resolve().name}
        return self.settings_from(values, folder.resolve()), options

    def differing(self, folder: Path, settings: S) -> list[str]:
        """One line for each setting that is another one than that of the run in the folder."""
        if not (folder / SETTINGS_FILE).exists():
            return []
        before, now = self._comparable(self.load(folder)[0]), self._comparable(settings)
        return [
            f"{name}: {_shown(now, name)} here, but {_shown(before, name)} in the run in {folder}"
            for name in {**now, **before}
            if name not in self.resumable and (name in now, now.get(name)) != (name in before, before.get(name))
        ]

    def _comparable(self, settings: S) -> dict[str, Any]:
        return flatten({**dataclasses.asdict(settings), **{section: {} for section in self.not_compared}})

    def open_folder(
        self,
        settings: S,
        where: RunOutput,
        notify: Notify,
        *,
        is_resumed: bool,
        differing_content: Callable[[Path], Sequence[str]],
    ) -> OutputFolder:
        """The open folder of a new run, or of the run that it holds.

        A finished run, or one of other settings or data, is refused; with `fail_if_exists: false` what is there is set
        aside.  `is_resumed`: whether a person asks for the run that is there.
        """
        output = OutputFolder(where.path)
        if not output.holds_run:
            if (output.path / SETTINGS_FILE).exists():
                what = f"{output.path} has files of a run, but no run.json"
                raise OutputError(f"{what}: restore it, or give another folder")
            output.open()
            return output
        output.check_kind(self.name)
        if not is_resumed and not where.fail_if_exists:
            if aside := output.rotate():
                notify(f"the earlier run is now in {aside}")
            return output
        problems = self.differing(output.path, settings)
        if self.progress(output.path).is_finished and not is_resumed:
            holds = f"{output.path} holds a finished run; name another, or set false to set it aside"
            problems.insert(0, f"output.fail_if_exists: {holds}")
        else:
            problems += differing_content(output.path)
        if problems:
            raise SettingsError(problems)
        output.open()
        return output

    @contextmanager
    def driving(
        self,
        output: OutputFolder,
        settings: S,
        options: O,
        callbacks: Callbacks,
        level: str,
        again: str,
        stream: TextIO | None = None,
    ) -> Iterator[Driving]:
        """Around the work; logs from `level` on go to the run's file and `stream` (standard error)."""
        from orchestrator.runs.session import Driving, log_to, restored_if_refused

        log_to(output.log, level, [logging.StreamHandler(stream or sys.stderr)])
        raise_on_signals()
        budget = options.budget_usd if isinstance(options, EndpointOptions) else 0.0
        with Driving(output, callbacks, again=again, raise_budget=f"--set budget_usd={2 * budget:g}") as driving:
            output.run_id(self.name)  # first of all: files without it are no run
            with restored_if_refused(output.path / SETTINGS_FILE, output.path / PROGRESS_FILE):
                self.save(output, settings, options)
                yield driving


def _shown(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    listed = f"[{', '.join(map(quote, value))}]" if isinstance(value, list | tuple) else quote(value)
    return listed if name in values else "missing"
