"""Callbacks: code that follows a run from inside its driver, such as an experiment tracker.

    class Printer(Callback):
        def on_generation(self, run: RunInfo, generation: GenerationInfo) -> None:
            print(generation.number, generation.record["best"])

The Python API takes callbacks as objects, and CONFIG_CALLBACKS names factories of them.  They are called in the thread
of the driver, and the run waits for them.  What one raises is reported, with a traceback in the run's log, and the run
goes on: a callback cannot end, park or change a run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from orchestrator.settings import SettingsError
from tasks.common.named import load_named
from tasks.common.text import first_line

log = logging.getLogger(__name__)

GROUP = "whetstone.callbacks"
"""The group of entry points whose names CONFIG_CALLBACKS may have."""

EndState = Literal["finished", "parked", "stopped", "failed"]


@dataclass(frozen=True)
class RunInfo:
    """A run whose session begins.

    `settings` has all by name: of an evolution those of the .config in lower case ("population_size"), of other kinds
    dotted ("phase0.k"); no keys and passwords.  `done` of `total` generations (other kinds: of what they count) were
    recorded by earlier sessions of the run.
    """

    id: str
    kind: str
    folder: Path
    settings: Mapping[str, Any]
    total: int
    done: int = 0


@dataclass(frozen=True)
class GenerationInfo:
    """A generation of an evolution that has ended; its files are written.

    `number` counts from 0.  `record` is its line of history.jsonl.  `deltas` (by cluster, in logits) and `scratchpad`
    are those of the best individual so far.
    """

    number: int
    record: Mapping[str, Any]
    deltas: Mapping[str, float]
    scratchpad: str


@dataclass(frozen=True)
class RunEnd:
    """How a session ended, once nothing more is written into the output folder.

    "finished": all is done; "parked" and "stopped": it can go on, and `reason` says why it did not; "failed": an error
    of the program or of the farm.
    """

    state: EndState
    reason: str = ""


class Callback:
    """What is called, in order: `on_start` once, `on_generation` for each generation that ends, `on_end` once.

    A run that is refused before it starts calls nothing.  A run that is killed does not call `on_end`; its next session
    calls `on_start` again, with the same `RunInfo.id`.
    """

    def on_start(self, run: RunInfo) -> None:
        """The farm is up and the run's own; nothing is measured yet."""

    def on_generation(self, run: RunInfo, generation: GenerationInfo) -> None:
        """A generation of an evolution is recorded, and the next has not begun."""

    def on_end(self, run: RunInfo, end: RunEnd) -> None:
        """The session has ended, and its farm is released.  All files are in `run.folder`, which is still locked."""


class Callbacks:
    """The callbacks of one session.  `notify` is given one line for each call that fails."""

    def __init__(self, callbacks: Sequence[Callback], notify: Callable[[str], object] = log.warning) -> None:
        self._callbacks = tuple(callbacks)
        self._notify = notify
        self._run: RunInfo | None = None

    def start(self, run: RunInfo) -> None:
        self._run = run
        for one in self._callbacks:
            self._call(one, "on_start", run)

    def end_generation(self, generation: GenerationInfo) -> None:
        for one in self._callbacks:
            self._call(one, "on_generation", self._run, generation)

    def end(self, end: RunEnd, notify: Callable[[str], object] | None = None) -> None:
        """Call `on_end`, if the run was started; a second call does nothing.  `notify` is in place of that above."""
        run, self._run = self._run, None
        self._notify = notify or self._notify
        if run is None:
            return
        for one in self._callbacks:
            self._call(one, "on_end", run, end)

    def _call(self, callback: Callback, method: str, *arguments: object) -> None:
        try:
            getattr(callback, method)(*arguments)
        except (Exception, SystemExit) as error:  # SystemExit: the run does not end because a callback says so
            name = f"the callback {type(callback).__name__}.{method}"
            log.exception("%s failed", name)
            self._notify(f"{name} failed: {type(error).__name__}: {first_line(error)}; the run is not affected")


def load_callbacks(names: str, option: str) -> tuple[Callback, ...]:
    """Of "my_module:Printer, my_entry_point": each names a class, or a function without arguments, which is called."""
    return tuple(_load(name.strip(), option) for name in names.split(",") if name.strip())


def _load(name: str, option: str) -> Callback:
    try:
        made = load_named(name, GROUP)()
    except (Exception, SystemExit) as error:  # a user's module may raise whatever it likes
        raise SettingsError([f"{option}: the callback {name!a} cannot be loaded: {first_line(error)}"]) from error
    if not isinstance(made, Callback):
        raise SettingsError([f"{option}: {name!a} does not inherit from orchestrator.callbacks.Callback"])
    return made
