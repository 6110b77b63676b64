"""`orchestrator show`: one individual of a run."""

from __future__ import annotations

import argparse
import dataclasses
import shutil

from orchestrator import exit_status
from orchestrator.commands import common

DESCRIPTION = """\
Show one individual of an evolution, also one that was never the best: its deltas by cluster, its scratchpad, its
figures, the individuals that it descends from, and the reflector's files about it.

A NODE is a name of the evolution's tree, such as g0_pop0, g2_child3_pre or g2_child3_mut."""

EPILOG = f"""\
examples:
  orchestrator show outputs/evolve g1_child0_mut
  orchestrator show outputs/evolve g1_child0_mut --json > individual.json
{common.LISTED}
`orchestrator evolve --fork RUN@NODE` begins a run with the individual.
exit status: 0 printed; 1 the folder holds no run, or the run has no such individual."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("show", DESCRIPTION, EPILOG)
    common.add_run(parser)
    parser.add_argument("node", metavar="NODE", help="the individual's name")
    common.add_json(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: _show(arguments))


def _show(arguments: argparse.Namespace) -> int:
    from orchestrator.report.individual import individual_lines, shown_individual
    from orchestrator.results import RunResults

    one = shown_individual(RunResults.open(arguments.run), arguments.node)
    common.print_found(arguments, dataclasses.asdict(one), individual_lines(one, shutil.get_terminal_size().columns))
    return exit_status.DONE
