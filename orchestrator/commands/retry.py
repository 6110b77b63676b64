"""`orchestrator retry`: go on with a run that parked, or that was stopped."""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator.commands import common
from orchestrator.commands.evolve import evolve
from orchestrator.output import OutputFolder, run_id_of
from orchestrator.settings import load_settings

DESCRIPTION = """\
Go on with a run that parked because a task failed for good, with the settings that it was started with.

Only what is missing is done: finished evaluations, verdicts and reflections are kept.  Mend what made the task fail
first (the error is in `orchestrator status RUN`); --set changes an option that does not alter results."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("retry", DESCRIPTION)
    parser.add_argument("run", metavar="RUN", type=Path, help="the run's output folder")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="overrides", help="set one option"
    )
    parser.add_argument("--plain", action="store_true", help="plain lines, also in a terminal")
    return parser


def run(arguments: argparse.Namespace) -> int:
    def work() -> int:
        output = OutputFolder(arguments.run)
        run_id_of(arguments.run)
        settings = load_settings(output.config, [f"OUTPUT_DIR={arguments.run}", *arguments.overrides])
        return evolve(settings, fresh=False, plain=arguments.plain)

    return common.guarded(work)
