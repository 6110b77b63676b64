"""`orchestrator answers`: what the model said with the zero vector, and what it says with the best deltas."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from orchestrator.commands import common
from orchestrator.output import OutputError, OutputFolder, read_json_or_error, run_id_of

DESCRIPTION = "Read a finished run's answers side by side: before (the zero vector) and after (the best deltas)."


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("answers", DESCRIPTION)
    parser.add_argument("run", metavar="RUN", type=Path, help="the run's output folder")
    parser.add_argument(
        "--only", choices=("all", "changed", "lost", "gained"), default="all",
        help="all; those whose text changed; those that became wrong; those that became right",
    )  # fmt: skip
    parser.add_argument("--width", type=int, help="columns; the terminal's when not given")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: show(arguments))


def show(arguments: argparse.Namespace) -> int:
    from orchestrator.report.side_by_side import answers_table
    from orchestrator.runs.final import SHAPE, from_json

    output = OutputFolder(arguments.run)
    run_id_of(arguments.run)
    if not output.answers.exists():
        raise OutputError(f"{arguments.run} has no answers to compare yet; they are written when the run is finished")
    values = read_json_or_error(output.answers, SHAPE)
    if arguments.json:
        print(json.dumps(values, indent=2, ensure_ascii=False))
        return common.DONE
    width = arguments.width or shutil.get_terminal_size().columns
    try:
        tables = [answers_table(comparison, width, only=arguments.only) for comparison in from_json(values)]
    except ValueError as error:  # not the same examples on both sides
        raise OutputError(f"{output.answers} cannot be read: {error}") from None
    for table in tables:
        print(table)
    return common.DONE
