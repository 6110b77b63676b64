"""`orchestrator guide`: a frozen model that judges tickets learns the rules in its prompt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import click

from orchestrator import console
from orchestrator.commands import options
from orchestrator.guide.settings import GuideOptions


@click.group(cls=options.CommandWithForms, drives=True)
@options.yaml_option
@click.option("--step", type=click.Choice(("all", "ingest")), default="all",
              help="the whole; or the tickets and shuffles only (all)")  # fmt: skip
@options.field_options(GuideOptions)
@click.pass_context
def guide(ctx: click.Context, /, config: Path | None, step: Literal["all", "ingest"], **farm: Any) -> int:
    """Judge tickets with a frozen model, let a model propose small edits of the numbered experiences in its prompt, and
    apply those that help on held-out tickets.

    Everything comes from a YAML file (see configs/guide.yaml).  The other forms work on what a run has left.

    examples:
      orchestrator guide --config configs/guide.yaml
      orchestrator guide --config configs/guide.yaml --step ingest --log-level debug
      orchestrator guide --config configs/guide_gpu.yaml --farm external --redis-url redis://127.0.0.1:6379/0

    other forms:
      orchestrator guide promote RUN --to FILE          put what a run has learned into the file that runs begin with
      orchestrator guide rollback RUN --mission M --step N   make an earlier step of a run its next one

    results: {output.root}/{run_id} of the YAML, one folder for each mission; its path on standard output.
    exit status: 0 done; 1 the file, its data or arguments are wrong, nothing was started; 2 an error of the farm, a
    batch without a valid answer, or a prompt over the model's context; 3 parked: tasks failed for good; 4 another
    process works on this run; 130 interrupted; 143 terminated.  After an error of the farm, 3, 130 and 143,
    `orchestrator retry FOLDER` or the same command resumes it; with `output.fail_if_exists: false` the same command
    begins anew.  Without a valid answer, or with a prompt that is too long, other settings or data are needed, and
    another run.
    """
    if ctx.invoked_subcommand is not None:
        return console.DONE
    if config is None:
        return console.fail(console.WRONG, "--config: is missing; it names the YAML file")
    from orchestrator.guide.settings import read_guide_settings

    settings, chosen = read_guide_settings(config), options.parse_options(GuideOptions, farm)
    # Imported here: this needs Celery, and wrong settings are reported at once.
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
    help="Put a run's experiences into the file that runs begin with, unless it has moved since.",
    epilog="exit status: 0 done; 1 the folder holds no run of guide, or the file has moved; 2 a disk is full.",
)
@options.run_argument
@click.option("--to", type=options.path_option, metavar="FILE", help="the file (default: guidance.path of the run)")
@click.option("--mission", multiple=True, metavar="NAME", help="only this one; may be repeated")
def promote(run: Path, to: Path | None, mission: Sequence[str]) -> int:
    from orchestrator.guide.guidance import promote, run_guidance
    from orchestrator.guide.run import GUIDE

    path = to or Path(GUIDE.load(run)[0].guidance.path)
    steps = promote(run_guidance(run, mission), path)
    lines = [f"{path}: {name} went from step {before} to step {after}" for name, (before, after) in steps.items()]
    print(*lines, sep="\n")
    return console.DONE
