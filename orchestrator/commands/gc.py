"""`orchestrator gc`: show what a farm no longer needs, and remove it."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator import console
from orchestrator.commands import options

if TYPE_CHECKING:
    from orchestrator.farm.cleanup import CleanupRule, Unneeded
    from orchestrator.farm.connection import FarmConnection
    from tasks.store.retention import StoredRun

DAYS = 30
MEGABYTE = 2**20


@options.command()
@options.farm_option
@click.option("--days", type=click.FloatRange(0, 1e6), metavar="N", default=DAYS, help="what is old (default: 30)")
@click.option("--store-mb", type=click.FloatRange(0, 1e6), metavar="N", help="memory of the store (default: no limit)")
@click.option("--run", "runs", multiple=True, metavar="ID",
              help="also this run, whatever its state; may be repeated")  # fmt: skip
@click.option("--remove", is_flag=True, help="remove it; without this option nothing is changed")
@options.json_option
def gc(
    config: Path | None, days: float, store_mb: float | None, runs: Sequence[str], remove: bool, as_json: bool
) -> int:
    """Show what a farm no longer needs, and how much it is; with --remove, remove it.

      finished runs    the records of runs that finished more than --days days ago; their output folders stay
      results          answers, verdicts, clusterings and others that no run holds, last used more than --days days ago;
                       with --store-mb more of them, the first to expire first, until the store uses no more
      files            of an embedded farm: rotated logs, and labels of clusterings, older than --days days

    What a running, parked or stopped run needs is never removed, also when it begins while this command is at work.
    Runs apply the same rule, with 30 days, whenever they begin.  `--run ID` removes a run that will never be resumed
    and whose output folder is gone; `orchestrator runs --delete RUN` removes one that has its folder.

    examples:
      orchestrator gc                              what would be removed; nothing is changed
      orchestrator gc --days 7 --remove            what is older than a week
      orchestrator gc --store-mb 500 --remove      until the store uses at most 500 MB
      orchestrator gc --run demo-1a2b3c4d --remove

    results: what is or would be removed, on standard output.  Output folders of runs are never touched.

    exit status: 0 done; 1 the arguments or the settings are wrong, or a named run is at work; 2 the farm cannot be
    reached.
    """
    from orchestrator.farm.cleanup import CleanupRule, find_unneeded, remove_unneeded
    from orchestrator.runs.lifecycle import delete_run

    with _farm_of(config) as (farm, folder):
        most = None if store_mb is None else int(store_mb * MEGABYTE)
        rule = CleanupRule(days, most)
        retention = farm.store.retention
        found = find_unneeded(retention, folder, rule)
        if problem := _why_not(farm, runs, found):
            return console.fail(console.WRONG, problem)
        removed = None
        if remove:
            for run_id in runs:
                delete_run(farm, run_id)
            removed = dataclasses.asdict(remove_unneeded(retention, found, rule))
            removed["runs"] += len(runs)
    done = "nothing was removed; add --remove to remove it"
    if removed:
        done = f"removed {removed['runs']} runs, {removed['results']} results and {removed['files']} files"
    value = {
        "days": rule.days,
        "runs": [dataclasses.asdict(run) for run in found.runs],
        "results": len(found.results),
        "results_bytes": sum(result.size for result in found.results),
        "files": [{"path": str(file.path), "size": file.size} for file in found.files],
        "other_runs": [dataclasses.asdict(run) for run in found.other_runs],
        "used_bytes": found.used,
        "limit_bytes": found.limit,
        "removed": removed,
    }
    options.print_found(as_json, value, [*_lines(found, rule, runs), done])
    return console.DONE


@contextmanager
def _farm_of(config: Path | None) -> Iterator[tuple[FarmConnection, Path | None]]:
    """The farm, and the folder of an embedded one.

    An embedded farm that is down is started for the time of the command: its data are in its Valkey.
    """
    from orchestrator.farm import FarmUnavailable
    from orchestrator.farm.connection import (
        DEFAULT_CONFIG,
        embedded_address,
        external_address,
        found_address,
        open_farm,
        reach,
    )
    from orchestrator.settings.kconfig import load_settings

    if config is None and (found := found_address()):
        with reach(found) as farm:
            yield farm, None
        return
    settings = load_settings(config or DEFAULT_CONFIG)
    if not settings.is_embedded:
        with reach(external_address(settings.redis_url)) as farm:
            yield farm, None
        return
    folder = settings.farm_dir.resolve()
    if not (folder / "valkey").exists():
        raise FarmUnavailable(f"no farm has stored anything in {settings.farm_dir}")
    try:
        address = embedded_address(folder)
    except FarmUnavailable:
        with open_farm(settings, lambda line: None) as farm:
            yield farm, folder
        return
    with reach(address) as farm:
        yield farm, folder


def _why_not(farm: FarmConnection, runs: Sequence[str], found: Unneeded) -> str:
    """Why one of these runs cannot be removed, or ""."""
    from orchestrator.runs.lifecycle import active_tasks
    from tasks.store.ownership import read_lease

    known = {run.run for run in (*found.runs, *found.other_runs)}
    for run_id in runs:
        if run_id not in known:
            return f"--run {run_id}: the store has no such run"
        held = read_lease(farm.store.redis, run_id)
        if held is not None and not held.owner.has_ended():
            return f"--run {run_id}: it is running, {held}; stop it first"
        if active := active_tasks(farm, run_id):
            return f"--run {run_id}: workers still have tasks of it: {active[0]}"
    return ""


def _lines(found: Unneeded, rule: CleanupRule, named: Sequence[str]) -> Iterator[str]:
    from orchestrator.report.format import format_table

    kinds = Counter(result.kind for result in found.results)
    sizes: Counter[str] = Counter()
    for result in found.results:
        sizes[result.kind] += result.size
    rows = [("UNNEEDED", "NUMBER", "SIZE")]
    rows.append(("finished runs", f"{len(found.runs):,}", _size(sum(run.size for run in found.runs))))
    rows += [(f"results: {kind}", f"{kinds[kind]:,}", _size(sizes[kind])) for kind in sorted(kinds)]
    rows.append(("old files", f"{len(found.files):,}", _size(sum(file.size for file in found.files))))
    yield from format_table(rows)
    yield from (f"  run {run.run}, {_state(run)}" for run in found.runs)
    yield from (f"  {file.path}" for file in found.files)
    stay = [run for run in found.other_runs if run.run not in named]
    yield from (f"  run {run}, by --run" for run in named)
    if stay:
        yield f"these runs stay ({_size(sum(run.size for run in stay))}):"
        yield from (f"  run {run.run}, {_state(run)}, {_size(run.size)}" for run in stay)
    of = f" of {_size(found.limit)}" if found.limit else ""
    yield f"the store uses {_size(found.used)}{of}; the rule is {rule.days:g} days"


def _state(run: StoredRun) -> str:
    if not run.state:
        return "without a state that can be read"
    return f"{run.state} since {time.strftime('%Y-%m-%d %H:%M', time.localtime(run.updated))}"


def _size(count: int) -> str:
    """`0.4 MB`: bytes with one decimal."""
    return f"{count / MEGABYTE:,.1f} MB"
