"""`orchestrator status`: how far one run is."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import console
from orchestrator.commands import common
from orchestrator.console import command_line
from tasks.common.text import escape_control

if TYPE_CHECKING:
    from orchestrator.runs.status import RunStatus

DESCRIPTION = "Show how far one run is: what is done, its figures, tokens and cost, and why it does not go on."

EPILOG = f"""\
examples:
  orchestrator status outputs/evolve
  orchestrator status outputs/evolve --json
{common.LISTED}
exit status: 0 printed; 1 the folder holds no run."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("status", DESCRIPTION, EPILOG)
    common.add_run(parser)
    common.add_json(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: _show(arguments))


def _next_step(status: RunStatus) -> list[tuple[str, str]]:
    """How the run goes on, if it does."""
    if status.state == "finished":
        return []
    from orchestrator.runs.status import DEAD_END

    if status.state == "stopped" and status.reason:
        return [("next", DEAD_END)]
    return [("go on", command_line("retry", Path(status.folder)))]


def _show(arguments: argparse.Namespace) -> int:
    from orchestrator.report.formatting import format_cost
    from orchestrator.runs.kinds import kind_of
    from orchestrator.runs.status import run_status

    status = run_status(arguments.run)
    _, kind = kind_of(arguments.run)
    lines = [
        *kind.figure_lines(status.figures),
        ("used", f"{status.target_tokens:,} generated tokens, {status.calls:,} calls"),
        ("cost", format_cost(status.cost_usd, status.budget_usd, status.unconfirmed_usd)),
        *([("stopped" if status.state == "stopped" else "parked", status.reason)] if status.reason else []),
        *(("failed", f"{failure.stage} of {failure.node}: {failure.error}") for failure in status.failures),
        ("files", escape_control(status.folder)),
        *_next_step(status),
    ]
    head = f"{status.run}: {status.state}, {status.progress} done"
    listed = [head, *(f"  {what:<10} {text}" for what, text in lines)]
    common.print_found(arguments, dataclasses.asdict(status), listed)
    return console.DONE
