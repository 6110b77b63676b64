"""`orchestrator answers`: the model's answers without steering and with the winner, side by side."""

from __future__ import annotations

import argparse
import dataclasses
import shutil

from orchestrator import exit_status
from orchestrator.commands import common

DESCRIPTION = "Show the answers of a finished run side by side: before (the plain model) and after (the winner)."

EPILOG = f"""\
examples:
  orchestrator answers outputs/evolve
  orchestrator answers outputs/evolve --only lost       what steering has made wrong
  orchestrator answers outputs/evolve --json > answers.json
{common.LISTED}
exit status: 0 printed; 1 the folder holds no finished run."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("answers", DESCRIPTION, EPILOG)
    common.add_run(parser)
    parser.add_argument(
        "--only", choices=("all", "changed", "lost", "gained"), default="all",
        help="all; those whose text changed; those that became wrong; those that became correct",
    )  # fmt: skip
    parser.add_argument("--width", type=int, help="width in columns (default: the terminal's)")
    common.add_json(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: _show(arguments))


def _show(arguments: argparse.Namespace) -> int:
    from orchestrator.output import OutputError, OutputFolder, read_json, run_id_of
    from orchestrator.report.side_by_side import answers_table
    from orchestrator.report.statistics import Comparison

    output = OutputFolder(arguments.run)
    run_id_of(arguments.run)
    if not output.answers.exists():
        raise OutputError(f"{arguments.run} has no answers to compare; an evolution writes them when it is finished")
    comparisons = read_json(output.answers, tuple[Comparison, ...])
    width = arguments.width or shutil.get_terminal_size().columns
    try:
        tables = [answers_table(comparison, width, only=arguments.only) for comparison in comparisons]
    except ValueError as error:  # not the same examples on both sides
        raise OutputError(f"{output.answers} cannot be read: {error}") from None
    common.print_found(arguments, [dataclasses.asdict(comparison) for comparison in comparisons], tables)
    return exit_status.DONE
