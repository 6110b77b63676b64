"""`orchestrator report`: one HTML file that shows one run or several."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

from orchestrator import console
from orchestrator.commands import common

DESCRIPTION = """\
Write one HTML file that shows a run of any kind, or several side by side.  Of an evolution: what was saved and at what
loss, the measured systems, the search with its lineage, the best deltas, the answers before and after.  Of a guided
run: missions, decisions, experiences.  Of a routed run: the rates of hacks and what they are compared with.  Of every
run: what it cost, its settings and versions.

The file has everything in it and loads nothing, so it can be sent.  It holds the questions and answers of the run.
A run at work is shown as far as it is."""

EPILOG = """\
examples:
  orchestrator report outputs/evolve
  orchestrator report outputs/evolve outputs/embedded --output both.html

results: the file; its path and size on standard output.
exit status: 0 written; 1 a folder holds no run, or a file of it is damaged; 2 the file cannot be written."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("report", DESCRIPTION, EPILOG)
    common.add_run_list(parser)
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="the file to write (default: report.html in the first RUN)"
    )
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: _write(arguments))


def _write(arguments: argparse.Namespace) -> int:
    from orchestrator.page.html import render_page
    from orchestrator.results import RunResults
    from orchestrator.runs.folder import write_output

    runs = [RunResults.open(folder) for folder in arguments.runs]
    path: Path = arguments.output or arguments.runs[0] / "report.html"
    page = render_page(runs, datetime.datetime.now().astimezone()).encode()
    write_output(path, page)
    print(f"{path} ({len(page) / 1e6:.1f} MB)")
    return console.DONE
