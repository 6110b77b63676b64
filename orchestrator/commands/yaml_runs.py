"""`orchestrator collect`, `guide` and `route`: the runs whose settings are a YAML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import click

from orchestrator import console
from orchestrator.collect.settings import CollectOptions
from orchestrator.commands import options
from orchestrator.guide.settings import GuideOptions
from orchestrator.route.settings import RouteOptions

# What starts a run is imported in the functions: it needs Celery, and wrong settings are reported at once.


@options.command(drives=True)
@click.option("--config", type=options.path_option, required=True, metavar="FILE", help="the YAML file")
@click.option("--resume", is_flag=True, help="resume: skip what the checkpoint files have")
@options.field_options(CollectOptions)
def collect(config: Path, resume: bool, **farm: Any) -> int:
    """Find the tokens that a model wastes.

    The target writes verbose answers, and the reflector compresses them.  A pair is kept if the judge finds the
    compressed answer correct.  Then the two sides of all pairs are compared: how often does each token occur?

    The settings are a YAML file in which every key is set (configs/collect.yaml; docs/collect.md explains the keys).

    examples:
      orchestrator collect --config configs/collect.yaml
      orchestrator collect --config configs/collect.yaml --resume
      orchestrator collect --config configs/collect.yaml --farm external --redis-url redis://127.0.0.1:6379/0
      orchestrator collect --config c.yaml --budget 5 --price-prompt 2.5 --price-cached 1.25 --price-completion 10

    results: the file phase0.output_path of the YAML, and beside it checkpoints and the log; a summary on standard
    output.
    exit status: 0 done; 1 the file or arguments are wrong, nothing was started; 2 an error of the farm; 3 parked: tasks
    failed for good; 4 another process works on this collection; 130 interrupted; 143 terminated.  After 2, 3, 130 and
    143, `orchestrator retry FOLDER`, or the same command with --resume, resumes it.
    """
    from orchestrator.collect.settings import read_collect_settings
    from orchestrator.runs.folder import check_inputs

    if resume and farm["is_fresh"]:
        raise click.UsageError("--resume and --fresh exclude each other")
    settings, chosen = read_collect_settings(config), options.parse_options(CollectOptions, farm)
    check_inputs("phase0.output_path", Path(settings.phase0.output_path), {"--config": config})
    from orchestrator.collect.run import start_collection

    return start_collection(settings, chosen, resume=resume).exit(settings.phase0.output_path)


@click.group(cls=options.CommandWithForms, drives=True)
@click.option("--config", type=options.path_option, metavar="FILE", help="the YAML file")
@click.option("--step", type=click.Choice(("all", "ingest")), default="all",
              help="the whole run, or only the reading of the tickets and their order (all)")  # fmt: skip
@options.field_options(GuideOptions)
@click.pass_context
def guide(ctx: click.Context, /, config: Path | None, step: Literal["all", "ingest"], **farm: Any) -> int:
    """Learn rules for the prompt of a frozen model.

    The model judges tickets.  It, or a model at an endpoint, proposes small edits of the numbered experiences in its
    prompt.  An edit is applied if held-out tickets are judged better with it.

    The settings are a YAML file (configs/guide.yaml; docs/guide.md explains the keys).

    examples:
      orchestrator guide --config configs/guide.yaml
      orchestrator guide --config configs/guide.yaml --step ingest --log-level debug
      orchestrator guide --config configs/guide_gpu.yaml --farm external --redis-url redis://127.0.0.1:6379/0

    other forms:
      orchestrator guide promote RUN --to FILE               new runs begin with what this run has learned
      orchestrator guide rollback RUN --mission M --step N   make an earlier step of a run its next step

    results: {output.root}/{run_id} of the YAML, one folder for each mission; its path on standard output.
    exit status: 0 done; 1 the file, its data or arguments are wrong, nothing was started; 2 an error of the farm, a
    batch without a valid answer, or a prompt over the model's context; 3 parked: tasks failed for good; 4 another
    process works on this run; 130 interrupted; 143 terminated.  After an error of the farm, 3, 130 and 143,
    `orchestrator retry FOLDER` or the same command resumes it; with `output.fail_if_exists: false` the same command
    begins anew.  A batch without a valid answer, or a prompt that is too long, needs other settings or data and a new
    run.
    """
    if ctx.invoked_subcommand is not None:
        return console.DONE
    if config is None:
        raise click.UsageError("--config: is missing; it names the YAML file")
    from orchestrator.guide.settings import read_guide_settings

    settings, chosen = read_guide_settings(config), options.parse_options(GuideOptions, farm)
    from orchestrator.guide.run import start_guide

    return start_guide(settings, chosen, step=step).exit(settings.folder)


@guide.command(
    help="Make an earlier step of a finished run's mission its next step.",
    epilog="exit status: 0 done; 1 the run is not finished, or has no such mission or step; 2 a disk is full;\n"
    "4 another process works on the run.",
)
@options.run_argument
@click.option("--mission", required=True, metavar="NAME", help="the mission")
@click.option("--step", "to_step", type=int, required=True, metavar="N", help="a step with a snapshot")
def rollback(run: Path, mission: str, to_step: int) -> int:
    from orchestrator.guide.guidance import roll_back
    from orchestrator.guide.run import GUIDE, KIND
    from orchestrator.runs.folder import OutputError

    settings, _ = GUIDE.load(run)
    if not KIND.progress(run).is_finished:
        raise OutputError(f"{run} is not finished: its next steps build on the one that it is at")
    guidance = roll_back(run, mission, to_step, settings.guidance.retention)
    print(f"{mission}: step {guidance.step} has the experiences of step {to_step}")
    return console.DONE


@guide.command(
    help="Copy a run's experiences into the file that new runs begin with.  A file that has changed since is refused.",
    epilog="exit status: 0 done; 1 the folder holds no run of guide, or the file has changed since; 2 a disk is full.",
)
@options.run_argument
@click.option("--to", type=options.path_option, metavar="FILE", help="the file (default: guidance.path of the run)")
@click.option("--mission", multiple=True, metavar="NAME", help="only this mission; may be repeated")
def promote(run: Path, to: Path | None, mission: Sequence[str]) -> int:
    from orchestrator.guide.guidance import promote, run_guidance
    from orchestrator.guide.run import GUIDE

    path = to or Path(GUIDE.load(run)[0].guidance.path)
    steps = promote(run_guidance(run, mission), path)
    lines = [f"{path}: {name} went from step {before} to step {after}" for name, (before, after) in steps.items()]
    print(*lines, sep="\n")
    return console.DONE


@click.group(cls=options.CommandWithForms, drives=lambda given: not given["plan"])
@click.option("--config", type=options.path_option, metavar="FILE", help="the YAML file")
@click.option("--plan", is_flag=True, help="print jobs and tokens, and start nothing")
@options.field_options(RouteOptions)
@click.pass_context
def route(ctx: click.Context, /, config: Path | None, plan: bool, **farm: Any) -> int:
    """Train a model by reinforcement with gradient routing.

    A few authored pairs give a direction of hacks.  The run tests whether routing by this direction keeps a reward hack
    that nobody labelled out of the deployed weights.

    The settings are a YAML file (configs/route_smoke.yaml; docs/route.md explains the keys).  The same command resumes
    a run that was interrupted: each training continues from its last checkpoint, on any worker.

    examples:
      orchestrator route --config configs/route_smoke.yaml --plan
      orchestrator route --config configs/route_smoke.yaml
      orchestrator route --config configs/route_smoke.yaml --farm external --redis-url redis://127.0.0.1:6379/0

    other form:
      orchestrator route report RUN          print the tables and verdicts of a run, finished or not

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
        raise click.UsageError("--config: is missing; it names the YAML file")
    from orchestrator.route.settings import read_route_settings

    settings, chosen = read_route_settings(config), options.parse_options(RouteOptions, farm)
    if plan:
        from orchestrator.route.registration import checked_inputs, plan_lines

        checked_inputs(settings, is_planned=True)
        print(*plan_lines(settings), sep="\n")
        return console.DONE
    from orchestrator.route.run import start_route

    return start_route(settings, chosen).exit(settings.folder)


@route.command(
    help="Print the tables and verdicts of a run, finished or not.  Also print whether it is as registered.",
    epilog="exit status: 0 printed; 1 the folder holds no run of route, or a file of it is damaged.",
)
@options.run_argument
def report(run: Path) -> int:
    from orchestrator.route.report import report_text
    from orchestrator.runs.folder import OutputFolder, run_file

    run_file(run)
    OutputFolder(run).check_kind("route")
    print(report_text(run), end="")
    return console.DONE
