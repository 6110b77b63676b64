"""The command line: the names of the commands.  The module of a command is imported when the command runs."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence

from orchestrator.commands.common import EscapingParser

DESCRIPTION = """\
Whetstone makes a language model answer in fewer words without becoming wrong.

It evolves one logit bias for each cluster of the vocabulary of a served model, and keeps the biases that shorten the
answers and leave them correct.  Celery workers do the work."""

EPILOG = """\
start here:
  make evolve                                        everything on this machine, with a small model
  orchestrator evolve --config configs/gpu.config    your model on a GPU (see docs/settings.md)

exit status: 0 finished; 1 the settings or arguments are wrong, and nothing was started; 2 an error while running;
3 the run is parked, and `orchestrator retry RUN` resumes it; 130 interrupted (Ctrl+C) and 143 terminated (SIGTERM):
the same command resumes it."""

COMMANDS = {
    "collect": "find the tokens that a model wastes",
    "evolve": "run the evolution, or resume it",
    "cluster": "cluster the vocabulary of the target, without evolving",
    "failed": "list failed tasks and their errors",
    "retry": "resume a parked run; finished work is not repeated",
    "cancel": "stop a run and keep its results",
    "runs": "list runs and their state, or delete one from the farm",
    "status": "show the state of one run",
    "judge": "judge the answers in a file against their gold answers",
    "answers": "show a run's answers before and after, side by side",
    "workers": "list the workers of the farm and their tasks",
    "pause": "have a queue or a worker take no more tasks",
    "resume": "have a paused queue or worker take tasks again",
    "doctor": "check everything that a run needs, with a hint for each problem",
    "farm": "start, stop or show the embedded farm",
    "flower": "monitor a farm in a browser, and retry failed tasks",
}


def make_parser() -> argparse.ArgumentParser:
    """The top-level parser, with the names of the commands only."""
    parser = EscapingParser(
        prog="orchestrator",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    listed = "\n".join(f"  {name:<9} {text}" for name, text in COMMANDS.items())
    parser.epilog = f"commands (each has its own --help):\n{listed}\n\n{EPILOG}"
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of the commands below")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments of the command")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit with its status.  Wrong arguments are status 1, like wrong settings."""
    try:
        parsed = make_parser().parse_args(argv)
        command = importlib.import_module(f"orchestrator.commands.{parsed.command}")
        arguments = command.make_parser().parse_args(parsed.arguments)
    except SystemExit as stop:  # argparse exits with 2 for wrong arguments; here 2 is an error while running
        sys.exit(1 if stop.code == 2 else stop.code)
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of files may have bytes that are not UTF-8
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = command.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output closed it, for example `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status)
