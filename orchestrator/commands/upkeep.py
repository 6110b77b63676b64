"""`orchestrator doctor` and `gc`: what a farm lacks for a run, and what it no longer needs."""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator import console
from orchestrator.commands import options

if TYPE_CHECKING:
    from orchestrator.farm.checks import Finding
    from orchestrator.farm.connection import FarmConnection
    from orchestrator.settings.options import Settings
    from tasks.store.retention import StoredRun

DAYS = 30


@options.command()
@options.farm_option
@options.json_option
def doctor(config: Path | None, as_json: bool) -> int:
    """Check everything that a run needs, one line for each check, with a hint below one that fails: settings,
    questions, chat template, the broker, the workers of each queue, the same code everywhere, servers, GPUs, keys,
    disks, clocks.

    Nothing is started and nothing is changed.

    examples:
      orchestrator doctor                                the farm of WHETSTONE_REDIS_URL, else the embedded one
      orchestrator doctor --config configs/gpu.config    also checks the settings and what they need
      orchestrator doctor --json

    exit status: 0 every check passes; 1 otherwise.
    """
    found = list(findings(config))
    widest, lines = max(len(finding.check) for finding in found), list[str]()
    for finding in found:
        lines.append(f"{'ok   ' if finding.ok else 'WRONG'}  {finding.check.ljust(widest)}  {finding.message}")
        lines += [f"       {' ' * widest}  hint: {finding.hint}"] if finding.hint else []
    options.print_found(as_json, [{**dataclasses.asdict(one), "ok": one.ok} for one in found], lines)
    return console.DONE if all(finding.ok for finding in found) else console.WRONG


def findings(config: Path | None) -> Iterator[Finding]:
    """All findings.  Wrong settings end the checks, and without a broker the workers are not checked."""
    from orchestrator.evolve.questions import check_judge, choose_examples
    from orchestrator.farm.checks import Finding, check_disk, check_gpus_here, check_template
    from orchestrator.settings import SettingsError
    from orchestrator.settings.kconfig import load_settings

    settings: Settings | None = None
    if config is not None:
        try:
            settings = load_settings(config)
        except SettingsError as error:
            yield from (Finding("settings", problem, f"edit {config}") for problem in error.problems)
            return
        yield Finding("settings", str(config))
        try:
            examples = choose_examples(settings)
            check_judge(settings, examples)
            yield Finding("questions", ", ".join(f"{len(rows)} {which}" for which, rows in examples.items()))
        except SettingsError as error:
            hint = f"edit {config}, or the data that it names"
            yield from (Finding("questions", problem, hint) for problem in error.problems)
        yield from check_template(settings.target_model)
    folder = settings.output_dir if settings else Path("outputs")
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    yield check_disk("disk here", shutil.disk_usage(existing).free)
    if not os.access(existing, os.W_OK):
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


@options.command()
@options.farm_option
@click.option("--days", type=click.FloatRange(0, 1e6), metavar="N", default=DAYS, help="what is old (default: 30)")
@click.option("--run", "runs", multiple=True, metavar="ID",
              help="also this run, whatever its state; may be repeated")  # fmt: skip
@click.option("--remove", is_flag=True, help="remove it; without this option nothing is changed")
@options.json_option
def gc(config: Path | None, days: float, runs: Sequence[str], remove: bool, as_json: bool) -> int:
    """Show what a farm no longer needs, and how much it is; with --remove, remove it.

      finished runs    the records of runs that finished more than --days days ago; their output folders stay
      results          answers, verdicts, clusterings and others that no run holds, last used more than --days days ago

    What a running, parked or stopped run needs is never removed, also when it begins while this command is at work.
    Runs apply the same rule, with 30 days, whenever they begin.  `--run ID` removes a run that will never be resumed
    and whose output folder is gone; `orchestrator runs --delete RUN` removes one that has its folder.

    An embedded farm must be up: `orchestrator farm up` starts it.

    examples:
      orchestrator gc                              what would be removed; nothing is changed
      orchestrator gc --days 7 --remove            what is older than a week
      orchestrator gc --run demo-1a2b3c4d --remove

    results: what is or would be removed, on standard output.  Output folders of runs are never touched.

    exit status: 0 done; 1 the arguments or the settings are wrong, or a named run is at work; 2 the farm cannot be
    reached.
    """
    from orchestrator.farm.connection import named_address, reach
    from orchestrator.report.format import format_table
    from orchestrator.runs.lifecycle import delete_run
    from tasks.store.retention import DAY_S, KEPT_S

    before, removed = time.time() - days * DAY_S, None
    with reach(named_address(config)) as farm:
        retention = farm.store.retention
        ended, known, (used, limit) = set(retention.finished_before(before)), retention.runs(), retention.memory()
        old, others = ([run for run in known if (run.run in ended) is is_old] for is_old in (True, False))
        results = [result for result in retention.unheld() if result.expires_s <= KEPT_S - days * DAY_S]
        for run_id in runs:
            if problem := _why_not(farm, run_id, known):
                return console.fail(console.WRONG, f"--run {run_id}: {problem}")
        if remove:  # what a run has begun to use in between stays: the store decides on each once more
            for run_id in runs:
                delete_run(farm, run_id)
            removed = {"runs": len(runs) + sum(retention.remove_finished(run.run, before) for run in old)}
            retention.expire_unheld(KEPT_S)
            removed["results"] = retention.remove_results(results)
    sizes: Counter[str] = Counter()
    for result in results:
        sizes[result.kind] += result.size
    kinds = Counter(result.kind for result in results)
    rows = [("UNNEEDED", "NUMBER", "SIZE"), ("finished runs", f"{len(old):,}", _size(sum(run.size for run in old)))]
    rows += [(f"results: {kind}", f"{kinds[kind]:,}", _size(sizes[kind])) for kind in sorted(kinds)]
    stay = [run for run in others if run.run not in runs]
    lines = [
        *format_table(rows),
        *(f"  run {run.run}, {_state(run)}" for run in old),
        *(f"  run {run}, by --run" for run in runs),
        *([f"these runs stay ({_size(sum(run.size for run in stay))}):"] if stay else []),
        *(f"  run {run.run}, {_state(run)}, {_size(run.size)}" for run in stay),
        f"the store uses {_size(used)}{f' of {_size(limit)}' if limit else ''}; the rule is {days:g} days",
        "nothing was removed; add --remove to remove it"
        if removed is None
        else f"removed {removed['runs']} runs and {removed['results']} results",
    ]
    value = {
        "days": days,
        "runs": [dataclasses.asdict(run) for run in old],
        "results": len(results),
        "results_bytes": sizes.total(),
        "other_runs": [dataclasses.asdict(run) for run in others],
        "used_bytes": used,
        "limit_bytes": limit,
        "removed": removed,
    }
    options.print_found(as_json, value, lines)
    return console.DONE


def _why_not(farm: FarmConnection, run_id: str, known: Sequence[StoredRun]) -> str:
    """Why this run cannot be removed, or ""."""
    from orchestrator.runs.lifecycle import active_tasks
    from tasks.store.ownership import read_lease

    if run_id not in [run.run for run in known]:
        return "the store has no such run"
    held = read_lease(farm.store.redis, run_id)
    if held is not None and not held.owner.has_ended():
        return f"it is running, {held}; stop it first"
    active = active_tasks(farm, run_id)
    return f"workers still have tasks of it: {active[0]}" if active else ""


def _state(run: StoredRun) -> str:
    if not run.state:
        return "without a state that can be read"
    return f"{run.state} since {time.strftime('%Y-%m-%d %H:%M', time.localtime(run.updated))}"


def _size(count: int) -> str:
    return f"{count / 2**20:,.1f} MB"
