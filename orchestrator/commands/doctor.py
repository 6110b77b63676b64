"""`orchestrator doctor`: what a run lacks."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator import console
from orchestrator.commands import options

if TYPE_CHECKING:
    from orchestrator.farm.checks import Finding
    from orchestrator.settings.options import Settings


@options.command()
@click.option("--config", type=options.path_option, metavar="FILE",
              help="the .config of a run (default: .config; if there is none, only the farm is checked)")  # fmt: skip
@options.json_option
def doctor(config: Path | None, as_json: bool) -> int:
    """Check everything that a run needs.

    Where there is a .config these are the settings, the questions and the model's chat template.  In any case they are
    the broker, the workers of each queue, the code that they have, servers, GPUs, keys, disks and clocks.  Each check
    is one line; below one that fails is a hint.  Nothing is started and nothing is changed.

    examples:
      orchestrator doctor                      before `orchestrator evolve`
      orchestrator doctor --config my.config
      orchestrator doctor --json

    exit status: 0 every check passes; 1 otherwise.
    """
    if config is None and options.DEFAULT_CONFIG.exists():
        config = options.DEFAULT_CONFIG
    found = list(findings(config))
    widest, lines = max(len(finding.check) for finding in found), list[str]()
    for finding in found:
        mark = "note " if finding.note else "ok   " if finding.ok else "WRONG"
        lines.append(f"{mark}  {finding.check.ljust(widest)}  {finding.message}")
        lines += [f"       {' ' * widest}  hint: {finding.hint}"] if finding.hint else []
    options.print_found(as_json, [{**dataclasses.asdict(one), "ok": one.ok} for one in found], lines)
    return console.DONE if all(finding.ok for finding in found) else console.WRONG


def findings(config: Path | None) -> Iterator[Finding]:
    """All findings.  Wrong settings end the checks, and without a broker the workers are not checked."""
    from orchestrator.evolve.questions import check_judge, choose_examples, doubtful_data, judge_of
    from orchestrator.farm.checks import Finding, check_disk, check_gpus_here, check_template, weight_bytes
    from orchestrator.settings import SettingsError
    from orchestrator.settings.kconfig import load_settings

    settings: Settings | None = None
    if config is not None:
        try:
            settings = load_settings(config)
        except SettingsError as error:
            hint = f"{'edit' if config.exists() else 'write'} {config}"
            yield from (Finding("settings", problem, hint) for problem in error.problems)
            return
        yield Finding("settings", str(config))
        try:
            examples = choose_examples(settings)
            check_judge(settings, examples)
            yield Finding("questions", ", ".join(f"{len(rows)} {which}" for which, rows in examples.items()))
            yield from (Finding("questions", line, note=True) for line in doubtful_data(examples, settings.margin))
            yield Finding("judge", judge_of(settings))
        except SettingsError as error:
            hint = f"edit {config}, or the data that it names"
            yield from (Finding("questions", problem, hint) for problem in error.problems)
        if settings.is_embedded and (model := Path(settings.target_model)).is_dir():
            try:
                weight_bytes(model)
            except ValueError as error:
                yield Finding("model", str(error), "download it again, or set another CONFIG_TARGET_MODEL")
        yield from check_template(settings.target_model)
    folder = settings.output_dir if settings else Path("outputs")
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            yield check_disk("disk here", shutil.disk_usage(existing).free)
    except OSError:
        hint = "set another CONFIG_OUTPUT_DIR, or give write permission"
        yield Finding("output folder", f"{existing} cannot be written", hint)
    if settings is not None and settings.device == "cuda" and settings.is_embedded:
        yield check_gpus_here()
    yield from _farm(config, settings)


def _farm(config: Path | None, settings: Settings | None) -> Iterator[Finding]:
    import redis

    from orchestrator.farm import FarmUnavailable, StoreLost, workers
    from orchestrator.farm.checks import Finding, check_all, check_broker
    from orchestrator.farm.connection import control, farm_spec, named_address, reach
    from orchestrator.settings import SettingsError

    if settings is not None and settings.is_embedded:
        try:
            farm_spec(settings)
        except SettingsError as error:
            yield Finding("key", str(error), "put it into the environment of `orchestrator evolve`")
        if not control.status(settings.farm_dir.resolve()).up:
            yield Finding("farm", "embedded: it is started with the run", control.missing_parts())
            return
    try:
        address = named_address(config)
        with reach(address) as farm:
            yield from check_broker(farm.store.redis, address)
            yield from check_all(workers.reports(farm), farm.queues(), workers.paused(farm), settings)
    except StoreLost as error:  # it answers, and refuses: the checks above say what to do about it
        yield Finding("workers", f"not looked at: {error}", "run this again when the store takes writes")
    except (FarmUnavailable, redis.RedisError) as error:
        hint = "start a farm: orchestrator farm up, or docker compose up -d; or set WHETSTONE_REDIS_URL or --config"
        yield Finding("broker", str(error), hint)
