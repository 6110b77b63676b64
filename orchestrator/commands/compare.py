"""`orchestrator compare`: the most important figures of runs as text, side by side."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import shutil
import sys

from orchestrator import exit_status
from orchestrator.commands import common

DESCRIPTION = """\
Print the most important figures of a run, or of several side by side: tokens and right answers before and after,
against which rival, on which questions, and what it took.

Where two runs have answered the same questions, their winners are also compared with one another."""

EPILOG = f"""\
examples:
  orchestrator compare outputs/evolve
  orchestrator compare outputs/evolve outputs/embedded --csv > runs.csv
{common.LISTED}
exit status: 0 printed; 1 a folder holds no run, or a file of it is damaged."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("compare", DESCRIPTION, EPILOG)
    common.add_run_list(parser)
    form = parser.add_mutually_exclusive_group()
    common.add_json(form)
    form.add_argument("--csv", action="store_true", help="print CSV, one line for each run")
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: _show(arguments))


def _show(arguments: argparse.Namespace) -> int:
    from orchestrator.digest import digest_of
    from orchestrator.report.digests import digest_lines, direct_comparison, flat_record
    from orchestrator.results import RunResults

    runs = [RunResults.open(folder) for folder in arguments.runs]
    digests = [digest_of(run) for run in runs]
    if arguments.csv:
        rows = [flat_record(digest) for digest in digests]
        writer = csv.DictWriter(sys.stdout, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        return exit_status.DONE
    width = shutil.get_terminal_size().columns
    lines = [] if arguments.json else [*digest_lines(digests, width), *direct_comparison(runs, width)]
    common.print_found(arguments, [dataclasses.asdict(digest) for digest in digests], lines)
    return exit_status.DONE
