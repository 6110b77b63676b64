"""`orchestrator route`: training in which a direction from pairs decides where a gradient goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from orchestrator import console
from orchestrator.commands import options
from orchestrator.route.settings import RouteOptions


@click.group(cls=options.CommandWithForms, drives=True)
@options.yaml_option
@click.option("--plan", is_flag=True, help="print jobs and tokens, and start nothing")
@options.field_options(RouteOptions)
@click.pass_context
def route(ctx: click.Context, /, config: Path | None, plan: bool, **farm: Any) -> int:
    """Train a model by reinforcement with gradient routing, and test whether a hack direction, from a few authored
    pairs, keeps out of the deployed weights a reward hack that nobody labelled.

    Everything comes from a YAML file (see configs/route_smoke.yaml and docs/route.md).  The same command goes on with a
    run that was interrupted: a training begins again at its last checkpoint, on any worker.

    examples:
      orchestrator route --config configs/route_smoke.yaml --plan
      orchestrator route --config configs/route_smoke.yaml
      orchestrator route --config configs/route_smoke.yaml --farm external --redis-url redis://127.0.0.1:6379/0

    other form:
      orchestrator route report RUN                     print the tables and verdicts of a run, as far as it is

    results: {output.root}/{run_id} of the YAML: plan.json, rows/, checkpoints/, evaluation.jsonl, comparison.json,
    report.md and pictures; its path on standard output.
    exit status: 0 done; 1 the file, its data or arguments are wrong, nothing was started; 2 an error of the farm; 3
    parked: tasks failed for good; 4 another process works on this run; 130 interrupted; 143 terminated.  After 2, 3,
    130 and 143, `orchestrator retry FOLDER` or the same command resumes it; with `output.fail_if_exists: false` the
    same command begins anew.
    """
    if ctx.invoked_subcommand is not None:
        return console.DONE
    if config is None:
        return console.fail(console.WRONG, "--config: is missing; it names the YAML file")
    from orchestrator.route.settings import read_route_settings

    settings, chosen = read_route_settings(config), options.parse_options(RouteOptions, farm)
    # Imported here: these need Celery, and wrong settings are reported at once.
    if plan:
        from orchestrator.route.registration import checked_inputs, plan_lines

        checked_inputs(settings, is_planned=True)
        print(*plan_lines(settings), sep="\n")
        return console.DONE
    from orchestrator.route.run import start_route

    return start_route(settings, chosen).exit(settings.folder)


@route.command(
    help="Print the tables and verdicts of a run, of what it has evaluated so far, and whether it is as registered.",
    epilog="exit status: 0 printed; 1 the folder holds no run of route, or a file of it is damaged.",
)
@options.run_argument
def report(run: Path) -> int:
    from orchestrator.route.report import report_text
    from orchestrator.runs.folder import run_file
    from orchestrator.runs.kinds import check_kind

    run_file(run)
    check_kind(run, "route")
    print(report_text(run), end="")
    return console.DONE
