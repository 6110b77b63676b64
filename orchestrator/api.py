"""For scripts: `evolve`, `collect` and `guide` do what the commands of these names do; `open_run` reads a run.

Settings are resolved by the functions of the commands, and the same drivers run; only how a run ends differs.  A
command has an exit status, a function returns what the run has found, or raises.  What is heavy is imported when it is
used.
"""

from __future__ import annotations

import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from orchestrator import console
from orchestrator.callbacks import Callback, GenerationInfo, RunEnd, RunInfo
from orchestrator.results import RunResults
from orchestrator.runs.folder import OutputError
from orchestrator.settings import SettingsError

if TYPE_CHECKING:
    from orchestrator.runs.session import Ending

__all__ = [
    "Callback", "GenerationInfo", "OutputError", "RunEnd", "RunInfo", "RunResults", "RunStopped", "SettingsError",
    "collect", "evolve", "guide", "open_run",
]  # fmt: skip

PathName: TypeAlias = str | PathLike[str]
Value: TypeAlias = str | int | float | bool | PathLike[str] | None
"""Of a setting; None is an empty one."""
JudgeFunction: TypeAlias = Callable[[str, str, str], bool | float | tuple[bool | float, str]]
"""From question, gold and answer to whether the answer is right, or a score from 0 to 1, and perhaps a sentence why."""


class RunStopped(Exception):
    """The run has ended early and can go on: the same call resumes it, and so does `orchestrator retry`.

    `status` is the exit status that the command would have had: 3 parked, 4 another process has taken the run over.
    """

    def __init__(self, status: int, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.status = status


def open_run(path: PathName) -> RunResults:
    """The run in an output folder, finished or not.  Raises: OutputError when the folder holds none."""
    return RunResults.open(Path(path))


def evolve(
    config: PathName | None = None,
    *,
    output: PathName | None = None,
    judge: str | JudgeFunction | None = None,
    fork: PathName | None = None,
    callbacks: Sequence[Callback] = (),
    fresh: bool = False,
    quiet: bool = False,
    **settings: Value,
) -> RunResults:
    """Run the evolution of a settings file, or go on with the one in its output folder; returns what it has found.

    config: the file; without one .config, or the settings of the run that is forked.
    settings: in place of the file's, by their names in lower case: `evolve(..., ngen=4, target_model="embedded")`.
    judge: a function of (question, gold, answer), or a value of CONFIG_JUDGE.  fork: another run's folder, perhaps with
    @ and a generation or the name of an individual, with whose population this run begins.  callbacks: called beside
    those of CONFIG_CALLBACKS.  fresh: set aside the run that the folder holds.  quiet: print nothing; the folder's
    run.log has everything all the same.

    Raises: SettingsError, OutputError and FarmUnavailable, with nothing started or all taken down; RunStopped;
    KeyboardInterrupt.
    """
    from orchestrator.commands.options import DEFAULT_CONFIG, config_file
    from orchestrator.evolve.fork import resolve_fork
    from orchestrator.evolve.session import start_evolution
    from orchestrator.settings.kconfig import load_settings, typed_value

    if judge is not None:
        settings["judge"] = judge if isinstance(judge, str) else _name_of(judge)
    if output is not None:
        settings["output_dir"] = Path(output)
    given = {name.upper(): typed_value(Path(v) if isinstance(v, PathLike) else v) for name, v in settings.items()}
    with _as_guest(quiet, sys.stdout) as stream:
        file, begin = None if config is None else Path(config), None
        if fork is None:
            checked = load_settings(config_file(file or DEFAULT_CONFIG), given)
        else:
            checked, begin = resolve_fork(str(Path(fork)), file, given)
        ending = start_evolution(checked, fresh=fresh, plain=False, callbacks=callbacks, stream=stream, fork=begin)
    return result_of(ending, checked.output_dir)


def collect(
    config: PathName,
    settings: Mapping[str, Value] | None = None,
    *,
    output: PathName | None = None,
    callbacks: Sequence[Callback] = (),
    resume: bool = False,
    fresh: bool = False,
    quiet: bool = False,
    **options: Any,
) -> RunResults:
    """Find the tokens that a model wastes, as a YAML file describes it; returns what was found.

    settings: in place of the file's, by dotted name: `{"phase0.k": 20}`.  output: in place of `output_dir`, and of the
    folder of `phase0.output_path`.  options: those of the command (`orchestrator collect --help`), by the names of
    `CollectOptions`.  Raises: as `evolve`.
    """
    from orchestrator.collect.run import start_collection
    from orchestrator.collect.settings import CollectOptions, collect_settings_from
    from orchestrator.settings.documents import parse_document, read_mapping, set_value
    from orchestrator.settings.farm import FARM_CHECKS

    chosen = {name: str(value) if isinstance(value, PathLike) else value for name, value in (settings or {}).items()}
    if output is not None:
        chosen |= {"output_dir": str(output), "phase0.output_path": str(Path(output) / "phase0_data.json")}
    with _as_guest(quiet, sys.stderr) as stream:
        values = read_mapping(Path(config))
        for name, value in chosen.items():
            set_value(values, name, value)
        checked = collect_settings_from(values)
        farm = parse_document({**options, "is_fresh": fresh}, CollectOptions, FARM_CHECKS)
        ending = start_collection(checked, farm, resume=resume, callbacks=callbacks, stream=stream)
    return result_of(ending, Path(checked.output_dir))


def guide(config: PathName | Mapping[str, Any], **options: Any) -> RunResults:
    """Let a frozen model learn the rules in its prompt; returns what was found.

    config: a YAML file, or its values.  options: by the names of `GuideOptions`.  Raises: as `evolve`.
    """
    from orchestrator.guide import StageBPipeline
    from orchestrator.guide.settings import GuideOptions
    from orchestrator.settings.documents import parse_document
    from orchestrator.settings.farm import FARM_CHECKS

    with _as_guest(False, sys.stderr):
        return open_run(StageBPipeline(config, parse_document(options, GuideOptions, FARM_CHECKS)).run_all())


def _name_of(judge: JudgeFunction) -> str:
    """A function as settings name it: by its module, or by the file of a script."""
    module, name = getattr(judge, "__module__", None), getattr(judge, "__qualname__", "<")
    file = inspect.getsourcefile(judge) if inspect.isfunction(judge) else None
    if "." in name or "<" in name or not module or (module == "__main__" and not (file and Path(file).is_file())):
        raise SettingsError([f"judge: workers cannot import {judge!r}; define it with def at the top of a file"])
    return f"{module}:{name}" if "." in module or file is None else f"{file}:{name}"


def result_of(ending: Ending, folder: Path) -> RunResults:
    """What a run has found.  Raises: RunStopped and what ended it, where it has not ended by itself."""
    if ending.status == console.DONE:
        return open_run(folder)
    if ending.status == console.INTERRUPTED:
        raise KeyboardInterrupt(*ending.lines)
    if ending.status > console.BY_SIGNAL:  # the process is to end
        raise SystemExit(ending.exit())
    raise RunStopped(ending.status, ending.lines)


@contextmanager
def _as_guest(quiet: bool, usual: TextIO) -> Iterator[TextIO]:
    """Leave the process as it was: its umask, its signals, its logging.  Yields where to print."""
    from tasks.common.files import OTHERS

    root = logging.getLogger()
    handlers, level, umask = root.handlers[:], root.level, os.umask(OTHERS)
    root.handlers.clear()  # a run's log takes their place, and would close them
    with ExitStack() as stack:
        stack.enter_context(console.signals_restored())
        stream = stack.enter_context(open(os.devnull, "w")) if quiet else usual
        try:
            yield stream
        finally:
            os.umask(umask)
            for handler in root.handlers:
                handler.close()
            root.handlers[:] = handlers
            root.setLevel(level)
