"""`orchestrator guide`: a frozen model that judges tickets learns the rules in its prompt."""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator import console
from orchestrator.commands import common

DESCRIPTION = """\
Judge tickets with a frozen model, compare its verdicts with labels, let a model propose small edits of the numbered
experiences in the prompt, and apply those that help on held-out tickets.

Everything comes from a YAML file (see configs/guide.yaml).  The other forms work on what a run has left."""

EPILOG = """\
other forms:
  orchestrator guide promote RUN --to FILE          put what a run has learned into the file that runs begin with
  orchestrator guide rollback RUN --mission M --step N   make an earlier step of a run its next one

examples:
  orchestrator guide --config configs/guide.yaml
  orchestrator guide --config configs/guide.yaml --step ingest --log-level debug
  orchestrator guide --config configs/guide_gpu.yaml --farm external --redis-url redis://127.0.0.1:6379/0

results: {output.root}/{run_id} of the YAML, one folder for each mission; its path on standard output.
exit status: 0 done; 1 the file, its data or arguments are wrong, nothing was started; 2 an error of the farm, a batch
without a valid answer, or a prompt over the model's context; 3 parked: tasks failed for good; 4 another process works
on this run; 130 interrupted; 143 terminated.  After an error of the farm, 3, 130 and 143, `orchestrator retry FOLDER`
or the same command resumes it; with `output.fail_if_exists: false` the same command begins anew.  Without a valid
answer, or with a prompt that is too long, other settings or data are needed, and another run."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("guide", DESCRIPTION, epilog=EPILOG)
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="the YAML file; needed unless another form is named"
    )
    parser.add_argument("--step", choices=("all", "ingest"), default="all",
                        help="the whole; or the tickets and shuffles only (all)")  # fmt: skip
    common.add_log_level(parser)
    farm = common.add_own_farm(parser)
    farm.add_argument("--rollout-jobs", type=int, default=64, metavar="N",
                      help="jobs of the target in flight, over all workers (64)")  # fmt: skip
    farm.add_argument("--endpoint-jobs", type=int, default=4, metavar="N", help="calls of the endpoint in flight (4)")
    farm.add_argument("--sglang-url", default="", metavar="URL",
                      help="a server of the model that runs already (default: each gpu worker starts one)")  # fmt: skip
    farm.add_argument("--sglang-args", default="", metavar="TEXT", help="more arguments of a server that is started")
    farm.add_argument("--requests-per-minute", type=int, default=100_000, metavar="N",
                      help="most requests a minute to the endpoint, of all workers together")  # fmt: skip
    farm.add_argument("--tokens-per-minute", type=int, default=1_000_000_000, metavar="N",
                      help="most tokens a minute, likewise")  # fmt: skip
    common.add_cost(parser, "the calls to the endpoint")
    _add_forms(parser)
    return parser


def _add_forms(parser: argparse.ArgumentParser) -> None:
    forms = common.add_forms(parser)
    back = forms.add_parser("rollback", help="go back to an earlier step",
                            description="Make an earlier step of a finished run's mission its next step.",
                            epilog="exit status: 0 done; 1 the run is not finished, or has no such mission or step; 2 "
                                   "a disk is full; 4 another process works on the run.")  # fmt: skip
    back.add_argument("run", type=Path, metavar="RUN", help="the output folder of a run")
    back.add_argument("--mission", required=True, metavar="NAME", help="the mission")
    back.add_argument("--step", type=int, required=True, metavar="N", dest="to_step", help="a step with a snapshot")
    put = forms.add_parser("promote", help="let the next run begin with what one has learned",
                           description="Put a run's experiences into the file that runs begin with, unless it has "
                                       "moved since.",
                           epilog="exit status: 0 done; 1 the folder holds no run of guide, or the file has moved; 2 a "
                                  "disk is full.")  # fmt: skip
    put.add_argument("run", type=Path, metavar="RUN", help="the output folder of a run")
    put.add_argument("--to", type=Path, metavar="FILE", help="the file (default: guidance.path of the run)")
    put.add_argument("--mission", action="append", default=[], metavar="NAME", help="only this one; may be repeated")


def run(arguments: argparse.Namespace) -> int:
    work = {None: _learn, "rollback": _rollback, "promote": _promote}
    full = console.PARKED if arguments.form is None else console.BROKEN
    return common.handle_errors(lambda: work[arguments.form](arguments), full_disk=full)


def _learn(arguments: argparse.Namespace) -> int:
    if arguments.config is None:
        return console.fail(console.WRONG, "--config: is missing; it names the YAML file")
    from orchestrator.guide.options import GuideOptions
    from orchestrator.guide.settings import read_guide_settings

    settings = read_guide_settings(arguments.config)
    # Imported here: this needs Celery, and wrong settings are reported at once.
    from orchestrator.guide.run import end_guide, start_guide

    options = common.parse_options(arguments, GuideOptions)
    return end_guide(start_guide(settings, options, step=arguments.step), settings)


def _rollback(arguments: argparse.Namespace) -> int:
    from orchestrator.guide.existing import load_guide
    from orchestrator.guide.repository import roll_back
    from orchestrator.guide.tally import read_progress
    from orchestrator.runs.folder import OutputError

    settings, _ = load_guide(arguments.run)
    if not read_progress(arguments.run).is_finished:
        raise OutputError(f"{arguments.run} is not finished: its next steps build on the one that it is at")
    guidance = roll_back(arguments.run, arguments.mission, arguments.to_step, settings.guidance.retention)
    print(f"{arguments.mission}: step {guidance.step} has the experiences of step {arguments.to_step}")
    return console.DONE


def _promote(arguments: argparse.Namespace) -> int:
    from orchestrator.guide.existing import load_guide
    from orchestrator.guide.repository import promote, run_guidance

    path = arguments.to or Path(load_guide(arguments.run)[0].guidance.path)
    steps = promote(run_guidance(arguments.run, arguments.mission), path)
    lines = [f"{path}: {name} went from step {before} to step {after}" for name, (before, after) in steps.items()]
    print(*lines, sep="\n")
    return console.DONE
