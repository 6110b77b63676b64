"""The kind of runs that `orchestrator collect` starts.

The output folder holds its settings in `settings.yaml`: those of the YAML file and those of the farm.
"""

from __future__ import annotations

import dataclasses
import errno
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import yaml
from typing_extensions import TypedDict

from orchestrator import console
from orchestrator.callbacks import Callback, Callbacks
from orchestrator.collect.settings import CollectOptions, CollectSettings, collect_settings_from
from orchestrator.console import raise_on_signals
from orchestrator.farm.connection import FarmConnection, embedded_address, external_address
from orchestrator.runs.folder import OutputFolder, check_inputs, read_state
from orchestrator.runs.kinds import Figures, RunKind, RunProgress, ShownTable, check_kind
from orchestrator.settings import SettingsError
from orchestrator.settings.documents import override_values, pop_section, read_mapping

if TYPE_CHECKING:
    from orchestrator.runs.session import Ending

SETTINGS_FILE, PROGRESS_FILE = "settings.yaml", "progress.json"
RESUMABLE = (
    "log_level",
    "target.sglang.base_url",
    "target.sglang.timeout_s",
    "target.sglang.max_retries",
    *(f"reflector.{key}" for key in ("model_id", "api_base", "api_key_env")),
    *(f"reflector.{key}" for key in ("temperature", "top_p", "max_new_tokens", "seed")),
    *(f"phase0.correctness.evaluator_{key}" for key in ("model", "api_base", "api_key_env")),
    *(f"phase0.correctness.evaluator_{key}" for key in ("temperature", "top_p", "max_new_tokens", "seed")),
    "phase0.target_concurrency",
    "phase0.reflector_concurrency",
    "phase0.judge_concurrency",
    "phase0.output_path",
    *(f"farm.{field.name}" for field in dataclasses.fields(CollectOptions) if field.name != "is_fresh"),
)
"""The settings that may change before a collection is resumed, by dotted name; those of the farm begin with "farm.".

They do not alter results, or they say who compresses and judges.  The keys of compressions and verdicts cover the
latter, so those of another model, address or sampling are computed anew, and an output is never of two judges.
"""


class ProgressFile(TypedDict):
    """progress.json: examples that are judged, of how many, and the pairs that were retained of them."""

    done: int
    total: int
    retained_pairs: int
    is_finished: bool


def start_collection(
    settings: CollectSettings,
    options: CollectOptions,
    *,
    resume: bool,
    only: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    stream: TextIO | None = None,
) -> Ending:
    """Collect, and write to `stream` (standard error) how it goes.

    Of what has failed, `only` names what is to be retried.  `callbacks` are called beside those that the options name.

    A fresh collection sets the one aside that the output folder holds; when it is resumed, it stays a fresh one.
    """
    # Imported here: a command that only shows a collection does not need them.
    from orchestrator.collect.build import choose_split, collect_announcement
    from orchestrator.collect.checks import check_surroundings
    from orchestrator.collect.runner import Collector
    from orchestrator.runs.session import drive, log_to, restored_if_refused, settings_callbacks

    stream = stream or sys.stderr
    check_surroundings(settings, options)
    questions = {"data.financebench_path": Path(settings.data.financebench_path)}
    check_inputs("phase0.output_path", Path(settings.phase0.output_path), questions)
    parts = choose_split(settings)
    told = Callbacks([*settings_callbacks(options.callbacks, "--callbacks"), *callbacks])
    output = OutputFolder(Path(settings.output_dir))
    if resume and (output.path / SETTINGS_FILE).exists():
        options = dataclasses.replace(options, is_fresh=load_saved(output.path)[1].is_fresh)
    elif options.is_fresh and (aside := output.rotate()):
        print(f"the earlier collection is now in {aside}", file=stream)
    check_kind(output.path, "collect")
    output.open()
    check_output_path(Path(settings.phase0.output_path))
    log_to(output.path / "collect.log", settings.log_level, [logging.StreamHandler(stream)])
    raise_on_signals()

    print(collect_announcement(settings, options), file=stream, flush=True)

    def work() -> None:
        with restored_if_refused(output.path / SETTINGS_FILE, output.path / PROGRESS_FILE):
            save_settings(output, settings, options)
            output.remove(PROGRESS_FILE)
            Collector(settings, options, parts, output, resume, told, tuple(only)).run()

    budget = f"--set farm.budget_usd={2 * options.budget_usd:g}"
    return drive(output, work, told, again="the same command with --resume", raise_budget=budget)


def end_collection(ending: Ending, settings: CollectSettings) -> int:
    """Print the path of the output, or why there is none, and return the exit status."""
    if ending.status == console.DONE:
        print(Path(settings.phase0.output_path))
    return ending.exit()


def check_output_path(path: Path) -> None:
    """Whether the output can be written at the end, when all that it costs has been spent."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise SettingsError([f"phase0.output_path: {path}: {error.strerror}"]) from None


class CollectKind:
    """A collection, by its output folder."""

    files: Sequence[str] = (PROGRESS_FILE,)

    def progress(self, folder: Path) -> RunProgress:
        try:
            values = read_state(folder / PROGRESS_FILE, ProgressFile, "the next start writes it anew: remove it")
        except FileNotFoundError:
            return RunProgress("examples", 0, None, is_finished=False)
        figures = {"retained_pairs": float(values["retained_pairs"])}
        return RunProgress("examples", values["done"], values["total"], values["is_finished"], figures)

    def figure_lines(self, figures: Figures) -> Sequence[tuple[str, str]]:
        retained = figures.get("retained_pairs")
        return () if retained is None else (("retained", f"{retained:,.0f} pairs of the judged examples"),)

    def summary(self, figures: Figures) -> str:
        retained = figures.get("retained_pairs")
        return "" if retained is None else f"{retained:,.0f} pairs retained"

    def tables(self, folder: Path) -> Sequence[ShownTable]:
        return ()

    def farm_address(self, folder: Path) -> str:
        _, options = load_saved(folder)
        if options.farm == "external":
            return external_address(options.redis_url)
        return embedded_address(Path(options.farm_dir))

    def open_farm(self, folder: Path, notify: Callable[[str], None]) -> AbstractContextManager[FarmConnection]:
        from orchestrator.collect.runner import open_collect_farm

        return open_collect_farm(*load_saved(folder), notify)

    def resume(self, folder: Path, overrides: Sequence[str], only: Sequence[str], *, plain: bool) -> int:
        settings, options = load_saved(folder, overrides)
        settings = dataclasses.replace(settings, output_dir=str(folder))
        return end_collection(start_collection(settings, options, resume=True, only=only), settings)


def save_settings(output: OutputFolder, settings: CollectSettings, options: CollectOptions) -> None:
    values = {**dataclasses.asdict(settings), "farm": dataclasses.asdict(options)}
    output.write(SETTINGS_FILE, yaml.safe_dump(values, sort_keys=False, allow_unicode=True))


def load_saved(folder: Path, overrides: Sequence[str] = ()) -> tuple[CollectSettings, CollectOptions]:
    """What the collection was started with, and what is changed of it."""
    values = read_mapping(folder / SETTINGS_FILE)
    override_values(values, overrides, RESUMABLE, "collection")
    options = pop_section(values, "farm", CollectOptions)
    if options.budget_usd and None in options.prices:
        raise SettingsError(["farm.budget_usd: needs farm.price_prompt, farm.price_cached and farm.price_completion"])
    return collect_settings_from(values), options


KIND: RunKind = CollectKind()
