"""`orchestrator route`: training in which a direction from pairs decides where a gradient goes."""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator import console
from orchestrator.commands import common

DESCRIPTION = """\
Train a model by reinforcement with gradient routing, and test whether a hack direction, taken from a few authored
pairs, keeps out of the deployed weights a reward hack that nobody labelled.

Everything comes from a YAML file (see configs/route_smoke.yaml and docs/route.md).  The same command goes on with a run
that was interrupted: a training begins again at its last checkpoint, on any worker."""

EPILOG = """\
other form:
  orchestrator route report RUN                     print the tables and verdicts of a run, as far as it is

examples:
  orchestrator route --config configs/route_smoke.yaml --plan
  orchestrator route --config configs/route_smoke.yaml
  orchestrator route --config configs/route_smoke.yaml --farm external --redis-url redis://127.0.0.1:6379/0

results: {output.root}/{run_id} of the YAML: plan.json, rows/, checkpoints/, evaluation.jsonl, comparison.json,
report.md and pictures; its path on standard output.
exit status: 0 done; 1 the file, its data or arguments are wrong, nothing was started; 2 an error of the farm; 3 parked:
tasks failed for good; 4 another process works on this run; 130 interrupted; 143 terminated.  After 2, 3, 130 and 143,
`orchestrator retry FOLDER` or the same command resumes it; with
`output.fail_if_exists: false` the same command begins anew."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("route", DESCRIPTION, epilog=EPILOG)
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="the YAML file; needed unless another form is named"
    )
    parser.add_argument("--plan", action="store_true", help="print jobs, hours and memory, and start nothing")
    common.add_log_level(parser)
    farm = common.add_own_farm(parser)
    farm.add_argument("--gpu-jobs", type=int, default=3, metavar="N",
                      help="jobs on the cards in flight, over all workers (3)")  # fmt: skip
    farm.add_argument("--job-hours", type=float, default=24.0, metavar="H", help="hard limit of one job (24)")
    forms = common.add_forms(parser)
    what = "Print the tables and verdicts of a run, of what it has evaluated so far, and whether it is as registered."
    epilog = "exit status: 0 printed; 1 the folder holds no run of route, or a file of it is damaged."
    report = forms.add_parser("report", help="print a run's report", description=what, epilog=epilog)
    report.add_argument("run", type=Path, metavar="RUN", help="the output folder of a run")
    return parser


def run(arguments: argparse.Namespace) -> int:
    work = {None: _route, "report": _report}[arguments.form]
    full = console.PARKED if arguments.form is None else console.BROKEN
    return common.handle_errors(lambda: work(arguments), full_disk=full)


def _route(arguments: argparse.Namespace) -> int:
    if arguments.config is None:
        return console.fail(console.WRONG, "--config: is missing; it names the YAML file")
    from orchestrator.route.settings import RouteOptions, read_route_settings

    settings = read_route_settings(arguments.config)
    options = common.parse_options(arguments, RouteOptions)
    # Imported here: these need Celery, and wrong settings are reported at once.
    if arguments.plan:
        from orchestrator.route.checks import checked_inputs
        from orchestrator.route.plan import plan_lines

        checked_inputs(settings, is_planned=True)
        print(*plan_lines(settings), sep="\n")
        return console.DONE
    from orchestrator.route.run import end_route, start_route

    return end_route(start_route(settings, options), settings)


def _report(arguments: argparse.Namespace) -> int:
    from orchestrator.route.report import report_text
    from orchestrator.runs.folder import run_file
    from orchestrator.runs.kinds import check_kind

    run_file(arguments.run)
    check_kind(arguments.run, "route")
    print(report_text(arguments.run), end="")
    return console.DONE
