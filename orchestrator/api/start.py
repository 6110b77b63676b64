"""`evolve` and `collect`: what the commands of these names do, for a script or a notebook.

Settings are resolved by the functions of the commands, and the same drivers run; only how a run ends differs.  A
command has an exit status, a function returns what the run has found, or raises.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

from orchestrator import exit_status
from orchestrator.api.inputs import FOLDER, InputError, JudgeFunction, Questions, data_settings, judge_settings
from orchestrator.collection import NO_LIMIT_REQUESTS, NO_LIMIT_TOKENS

if TYPE_CHECKING:
    from orchestrator.api.frames import OpenRun
    from orchestrator.callbacks import Callback
    from orchestrator.runs.drive import Ending

Value = str | int | float | bool | PathLike[str] | None
"""Of a setting; None is an empty one."""


class RunStopped(Exception):
    """The run has ended early and can go on: the same call resumes it, and so does `orchestrator retry`.

    `status` is the exit status that the command would have had: 3 parked, 4 another process has taken the run over.
    """

    def __init__(self, status: int, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.status = status


def evolve(
    config: str | PathLike[str] | None = None,
    *,
    output: str | PathLike[str] | None = None,
    judge: str | JudgeFunction | None = None,
    data: Questions | None = None,
    fork: str | PathLike[str] | None = None,
    callbacks: Sequence[Callback] = (),
    fresh: bool = False,
    quiet: bool = False,
    **settings: Value,
) -> OpenRun:
    """Run the evolution of a settings file, or go on with the one in its output folder; returns what it has found.

    config: the file; without one .config, or the settings of the run that is forked.
    settings: in place of the file's, by their names in lower case: `evolve(..., ngen=4, target_model="embedded")`.
    judge: a function of (question, gold, answer), or a value of CONFIG_JUDGE.  data: questions, as rows or the path of
    a file.  fork: another run's folder, perhaps with @ and a generation or the name of an individual, with whose
    population this run begins.  callbacks: called beside those of CONFIG_CALLBACKS.  fresh: set aside the run that the
    folder holds.  quiet: print nothing; the folder's run.log has everything all the same.

    Raises: SettingsError for wrong settings, OutputError for a folder that cannot be used, FarmUnavailable, with
    nothing started or all taken down; RunStopped; KeyboardInterrupt.
    """
    from orchestrator.commands.common import DEFAULT_CONFIG, config_file
    from orchestrator.runs.evolve import start_evolution
    from orchestrator.runs.fork import resolve_fork
    from orchestrator.settings import load_settings

    beside = Path(output or "outputs/run").parent / FOLDER
    with _as_guest(quiet, sys.stdout) as stream:
        _check_callbacks(callbacks)
        with _settings_errors():
            chosen = {} if data is None else data_settings(data, beside)
            chosen |= {} if judge is None else judge_settings(judge, beside)
        chosen |= {} if output is None else {"OUTPUT_DIR": str(Path(output))}
        given = chosen | _typed(settings)
        file, begin = None if config is None else Path(config), None
        if fork is None:
            checked = load_settings(config_file(file or DEFAULT_CONFIG), given)
        else:
            checked, begin = resolve_fork(str(Path(fork)), file, given)
        ending = start_evolution(checked, fresh=fresh, plain=False, callbacks=callbacks, stream=stream, fork=begin)
    return _result(ending, checked.output_dir)


def collect(
    config: str | PathLike[str],
    settings: Mapping[str, Value] | None = None,
    *,
    output: str | PathLike[str] | None = None,
    data: Questions | None = None,
    farm: Literal["embedded", "external"] = "embedded",
    redis_url: str = "",
    farm_dir: str | PathLike[str] = "outputs/farm",
    requests_per_minute: int = NO_LIMIT_REQUESTS,
    tokens_per_minute: int = NO_LIMIT_TOKENS,
    context_tokens: int = 0,
    retry_wait_s: float = 0.0,
    price_prompt: float | None = None,
    price_cached: float | None = None,
    price_completion: float | None = None,
    budget_usd: float = 0.0,
    callbacks: Sequence[Callback] = (),
    resume: bool = False,
    fresh: bool = False,
    quiet: bool = False,
) -> OpenRun:
    """Find the tokens that a model wastes, as a YAML file describes it; returns what was found.

    settings: in place of the file's, by dotted name: `{"phase0.k": 20}`.  output: in place of `output_dir`, and of the
    folder of `phase0.output_path`.  data: as for `evolve`, without parts.  The others are the command's options
    (`orchestrator collect --help`).
    Raises: as `evolve`.
    """
    from orchestrator.collection.run import start_collection
    from orchestrator.collection.settings import FarmOptions, collect_settings_from
    from orchestrator.settings import SettingsError
    from orchestrator.settings.documents import parse_document, read_mapping

    options = {
        "farm": farm,
        "redis_url": redis_url,
        "farm_dir": str(Path(farm_dir)),
        "requests_per_minute": requests_per_minute,
        "tokens_per_minute": tokens_per_minute,
        "context_tokens": context_tokens,
        "retry_wait_s": retry_wait_s,
        "price_prompt": price_prompt,
        "price_cached": price_cached,
        "price_completion": price_completion,
        "budget_usd": budget_usd,
        "is_fresh": fresh,
    }
    if resume and fresh:
        raise SettingsError(["fresh: a collection that is resumed is not begun anew"])
    beside = Path(output or "outputs/run").parent / FOLDER
    with _as_guest(quiet, sys.stderr) as stream:
        _check_callbacks(callbacks)
        if isinstance(data, Mapping):
            raise SettingsError(["data: a mapping; a collection takes rows, and data.split_ratios divides them"])
        values = read_mapping(Path(config))
        if output is not None:
            _put(values, "output_dir", str(Path(output)))
            _put(values, "phase0.output_path", str(Path(output) / "phase0_data.json"))
        with _settings_errors():
            if data is not None:
                _put(values, "data.financebench_path", data_settings(data, beside)["DATA_PATH"])
        for name, value in (settings or {}).items():
            _put(values, name, str(value) if isinstance(value, PathLike) else value)
        checked = collect_settings_from(values)
        ending = start_collection(
            checked, parse_document(options, FarmOptions), resume=resume, callbacks=callbacks, stream=stream
        )
    return _result(ending, Path(checked.output_dir))


def _result(ending: Ending, folder: Path) -> OpenRun:
    """What a run has found.  Raises: RunStopped and what ended it, where it has not ended by itself."""
    from orchestrator.api.frames import open_run

    match ending.status:
        case exit_status.DONE:
            return open_run(folder)
        case exit_status.INTERRUPTED:
            raise KeyboardInterrupt(*ending.lines)
        case status if status > exit_status.BY_SIGNAL:  # the process is to end
            raise SystemExit(ending.exit())
        case _:
            raise RunStopped(ending.status, ending.lines)


@contextmanager
def _settings_errors() -> Iterator[None]:
    from orchestrator.settings import SettingsError

    try:
        yield
    except InputError as error:
        raise SettingsError([str(error)]) from None


def _check_callbacks(callbacks: Sequence[Callback]) -> None:
    """Raises: SettingsError for what cannot be called later."""
    from orchestrator.callbacks import callback_problem
    from orchestrator.settings import SettingsError

    if not isinstance(callbacks, Sequence):
        raise SettingsError([f"callbacks: a {type(callbacks).__name__} is no list; give [...]"])
    problems = [f"callbacks: {one!r:.80} {problem}" for one in callbacks if (problem := callback_problem(one))]
    if problems:
        raise SettingsError(problems)


def _typed(settings: Mapping[str, Value]) -> dict[str, str]:
    """Settings by name as a person would type them."""
    from orchestrator.settings.load import typed_value

    named = {name.upper(): Path(v) if isinstance(v, PathLike) else v for name, v in settings.items()}
    return {name: typed_value(value) for name, value in named.items()}


def _put(values: dict[str, Any], name: str, value: object) -> None:
    """Set a value by its dotted name.  Raises: SettingsError for a section that is none."""
    from orchestrator.settings import SettingsError

    *sections, key = name.split(".")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise SettingsError([f"{name}: {section} is no section with keys of its own"])
    values[key] = value


@contextmanager
def _as_guest(quiet: bool, usual: TextIO) -> Iterator[TextIO]:
    """Leave the process as it was: its umask, its signals, its logging.  Yields where to print."""
    from orchestrator.signals import signals_restored
    from tasks.private import OTHERS

    root = logging.getLogger()
    handlers, level, umask = root.handlers[:], root.level, os.umask(OTHERS)
    root.handlers.clear()  # a run's log takes their place, and would close them
    with ExitStack() as stack:
        stack.enter_context(signals_restored())
        stream = stack.enter_context(open(os.devnull, "w")) if quiet else usual
        try:
            yield stream
        finally:
            os.umask(umask)
            for handler in root.handlers:
                handler.close()
            root.handlers[:] = handlers
            root.setLevel(level)
