"""`orchestrator farm`: an embedded farm that stays, the workers of any farm, and what a farm no longer needs."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator import console
from orchestrator.commands import options
from orchestrator.console import raise_on_signals
from tasks.common.logs import redacted
from tasks.common.text import escape_control

if TYPE_CHECKING:
    from orchestrator.farm.connection import FarmConnection, FarmStatus
    from tasks.store.retention import StoredRun

COMPOSE_HINTS = (
    "  its workers        orchestrator farm workers",
    "  Flower             docker compose port flower 5555 prints its address,",
    "                     secrets/flower/flower_basic_auth has name and password",
)
DAYS = 30


@click.group(cls=options.CommandWithForms)
@click.pass_context
def farm(ctx: click.Context) -> int:
    """Start, stop or show the embedded farm.

    It has a Valkey, the workers of the three queues and, if CONFIG_OPENAI_BASE_URL is empty, the endpoint that answers
    by rules.  `orchestrator evolve` uses a farm that is up already, and leaves it up.  `workers` and `gc` are for every
    farm, also for an external one.

    examples:
      orchestrator farm up                                  with configs/embedded.config
      orchestrator farm up --config my.config --set FARM_DIR=outputs/other
      orchestrator farm status --json
      orchestrator farm down
      orchestrator farm workers
      orchestrator farm gc

    results: data and logs are in CONFIG_FARM_DIR (outputs/farm); addresses and processes are printed to standard
    output.

    exit status: 0 done; 1 the arguments or the settings are wrong; 2 the farm could not be started or reached; of
    status: it is not up.
    """
    if ctx.invoked_subcommand is None:
        raise click.UsageError(f"which of its forms: {', '.join(farm.list_commands(ctx))}?")
    return console.DONE


UP_AND_DOWN = {
    "up": "Start the embedded farm.  It stays up until `orchestrator farm down`.",
    "down": "Stop the embedded farm.",
    "status": "Show the processes of the embedded farm.  Also a farm of `docker compose up` in this folder.",
}
STATUSES = "exit status: 0 done; 1 the arguments or the settings are wrong; 2 the farm could not start, or is not up."


def _add(action: str, about: str) -> None:
    @farm.command(action, help=about, epilog=STATUSES)
    @options.settings_options(None)
    @options.json_option
    def form(**given: Any) -> int:
        return _up_or_down(action, **given)


for _action, _about in UP_AND_DOWN.items():
    _add(_action, _about)


def _up_or_down(action: str, config: Path | None, overrides: Sequence[str], output: str | None, as_json: bool) -> int:
    from orchestrator.farm.connection import control, farm_spec, usual_config

    settings = options.load_given(config or usual_config(), overrides, output)
    raise_on_signals()
    try:
        if action == "up":
            with console.ticking(console.say, lambda: "waiting for the farm"):
                started = control.up(farm_spec(settings))
            lines = [
                f"the farm is up in {started.folder}",
                f"  store and broker   {started.redis_url}",
                f"  reflector, judge   {started.endpoint_url or redacted(settings.openai_base_url)}",
                "  stop it with       orchestrator farm down (with the same --config)",
            ]
        elif action == "down":
            is_down = control.down(settings.farm_dir)
            lines = ["the farm is down" if is_down else f"no farm is up in {settings.farm_dir}"]
    except control.FarmError as error:
        return console.fail(console.BROKEN, str(error))
    found = control.status(settings.farm_dir.resolve())
    if action == "status":
        lines = _status_lines(settings.farm_dir, found)
    options.print_found(as_json, dataclasses.asdict(found), lines)
    return console.DONE if found.up or action == "down" else console.BROKEN


def _status_lines(folder: Path, found: FarmStatus) -> list[str]:
    from orchestrator.farm.connection import compose_address

    owner = f"it belongs to process {found.owner_pid}" if found.owner_pid else "it stays until `farm down`"
    lines = [f"up since {found.started}; {owner}" if found.up else f"no farm is up in {folder}"]
    for process in found.processes:
        state = "runs" if process.alive else "ended"
        lines.append(f"  {process.name:<12} {process.pid:>8}  {state:<6} {process.rss / 2**20:8.0f} MiB")
    if (address := compose_address(Path.cwd())) is not None:
        lines += [f"the farm of docker compose is up at {redacted(address)}", *COMPOSE_HINTS]
    return lines


@farm.command()
@click.option("--pause", metavar="NAME", help="keep a queue or a worker from taking further tasks")  # fmt: skip
@click.option("--resume", metavar="NAME", help="let the queue or worker take tasks again")
@options.farm_option
@options.json_option
def workers(pause: str | None, resume: str | None, config: Path | None, as_json: bool) -> int:
    """List the workers of the farm.

    Each has its queue, state, tasks in flight and their limit, pid, host and code version.  A gpu worker also has its
    GPU, model and server, the requests in flight, and the generated tokens per second.

    The state is ready; paused (see --pause); refusing (it returns tasks that it cannot do to the queue; the reason is
    printed); or silent (there is a recent heartbeat, but no reply).

    A paused queue or worker takes no further tasks, and finishes those that it has.  It stays paused when it is started
    anew.

    examples:
      orchestrator farm workers                               the farm of WHETSTONE_REDIS_URL, else the embedded one
      orchestrator farm workers --config configs/gpu.config   the farm that a .config names
      orchestrator farm workers --json                        for a program
      orchestrator farm workers --pause openai                no more calls, for example to change the endpoint's limits
      orchestrator farm workers --resume openai

    To add a worker, on any host:  WHETSTONE_REDIS_URL=... python -m workers gpu --name gpu2

    exit status: 0 done; 1 the arguments or the settings are wrong; 2 the farm cannot be reached.
    """
    from orchestrator.farm import workers as registry
    from orchestrator.farm.connection import named_address, reach

    if pause and resume:
        raise click.UsageError("--pause and --resume exclude each other")
    with reach(named_address(config)) as reached:
        if name := pause or resume:
            states = registry.set_paused(reached, name, bool(pause))
            options.print_found(as_json, {"workers": states}, [f"{one}: {state}" for one, state in states.items()])
            return console.DONE
        found, paused, queues = registry.reports(reached), registry.paused(reached), reached.queues()
    listed = _lines(found) if found else [f"no worker is available; {registry.start_hint('QUEUE')}"]
    for name, since in sorted(paused.items()):
        listed.append(f"paused: {escape_control(name)}, since {datetime.fromtimestamp(since):%Y-%m-%d %H:%M:%S}")
    listed.append("waiting: " + ", ".join(f"{count} on {queue}" for queue, count in queues.items()))
    options.print_found(as_json, {"workers": found, "paused": paused, "queues": queues}, listed)
    return console.DONE


def _lines(found: Sequence[Mapping[str, Any]]) -> list[str]:
    from orchestrator.farm.workers import task_line
    from orchestrator.report.format import format_table

    rows = [("WORKER", "QUEUE", "STATE", "TASKS", "PID", "HOST", "CODE", "SINCE")]
    for one in found:
        since = f"{datetime.fromtimestamp(one['started']):%Y-%m-%d %H:%M:%S}"
        tasks, state = f"{len(one['tasks'])}/{one['slots']}", str(one.get("state", "?"))
        rows.append((one["worker"], one["queue"], state, tasks, str(one["pid"]), one["host"], one["version"], since))
    head, *table = format_table(rows)
    listed = [head]
    for line, one in zip(table, found, strict=True):
        more = [one["why"]] if one.get("why") else []
        more += [f"serves only {one['serves_only']}"] if one.get("serves_only") else []
        more += [_target(one["target"])] if one.get("target") else []
        listed += [line, *(f"    {text}" for text in [*more, *map(task_line, one.get("tasks") or [])])]
    return listed


def _target(target: Mapping[str, Any]) -> str:
    parts = [f"{target['in_flight']} requests in flight, {target['tokens_a_second']} tokens per second"]
    if gpu := target.get("gpu"):
        parts.insert(0, f"GPU {gpu['index']} {gpu['name']}, {gpu['used'] / 1e9:.1f} of {gpu['total'] / 1e9:.1f} GB")
    if target.get("url"):
        parts.insert(0, f"{target['model']} on {target['engine']} {target.get('version') or ''}".rstrip())
    return "; ".join(parts)


@farm.command()
@options.farm_option
@click.option("--days", type=click.FloatRange(0, 1e6), metavar="N", default=DAYS, help="the age in days (default: 30)")
@click.option("--run", "runs", multiple=True, metavar="ID",
              help="remove this run too, whatever its state; may be repeated")  # fmt: skip
@click.option("--remove", is_flag=True, help="remove it; without this option nothing is removed")
@options.json_option
def gc(config: Path | None, days: float, runs: Sequence[str], remove: bool, as_json: bool) -> int:
    """Show what a farm no longer needs, and its size.  With --remove it is removed.

      finished runs    the records of runs that finished more than --days days ago; their output folders stay
      results          answers, verdicts, clusterings and others that no run needs, last used more than --days days ago

    What a running, parked or stopped run needs is never removed, also if the run begins while this command is at work.
    Each run that begins applies the same rule, with 30 days.  `--run ID` removes a run that will never be resumed and
    whose output folder is gone.  `orchestrator runs --delete RUN` removes a run that has its folder.

    An embedded farm must be up: `orchestrator farm up` starts it.

    examples:
      orchestrator farm gc                         what would be removed; nothing is removed
      orchestrator farm gc --days 7 --remove       what is older than a week
      orchestrator farm gc --run demo-1a2b3c4d --remove

    results: what is or would be removed, on standard output.  Output folders of runs are never touched.

    exit status: 0 done; 1 the arguments or the settings are wrong, or a named run is at work; 2 the farm cannot be
    reached.
    """
    from orchestrator.farm.connection import named_address, reach
    from orchestrator.report.format import format_table
    from orchestrator.runs.lifecycle import delete_run
    from tasks.store.retention import DAY_S, KEPT_S

    before, removed = time.time() - days * DAY_S, None
    with reach(named_address(config)) as reached:
        retention = reached.store.retention
        ended, known, (used, limit) = set(retention.finished_before(before)), retention.runs(), retention.memory()
        old, others = ([run for run in known if (run.run in ended) is is_old] for is_old in (True, False))
        results = [result for result in retention.unheld() if result.expires_s <= KEPT_S - days * DAY_S]
        for run_id in runs:
            if problem := _why_not(reached, run_id, known):
                return console.fail(console.WRONG, f"--run {run_id}: {problem}")
        if remove:  # what a run has begun to use in between stays: the store decides on each once more
            for run_id in runs:
                delete_run(reached, run_id)
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
