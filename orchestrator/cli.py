"""The command line: which commands there are.  Each command's own module is imported when it runs."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence

from orchestrator.terminal_text import EscapingParser

DESCRIPTION = """\
Whetstone makes a language model answer in fewer words without getting them wrong.

It evolves one bias for each cluster of the vocabulary, adds it to the logits of a served model, and keeps what
shortens the answers and leaves them correct.  The work is done by Celery workers."""

EPILOG = """\
start here:
  make evolve                                        everything on this machine, with a small model
  orchestrator evolve --config configs/gpu.config    your model on a GPU (see docs/settings.md)

exit status: 0 done; 1 the settings or arguments are wrong, nothing was started; 2 something broke while running;
3 the run is parked and `orchestrator retry RUN` goes on with it; 130 interrupted, the same command goes on."""

COMMANDS = {
    "collect": "find the tokens that a model wastes (Phase 0)",
    "evolve": "run the evolution, or go on with it",
    "cluster": "cluster the vocabulary of the target, without evolving",
    "failed": "which tasks have failed, and why",
    "retry": "go on with a parked run, repeating nothing that was done",
    "cancel": "stop a run wherever it is at work, and keep what it has",
    "runs": "list runs and where they stand, or delete one from the farm",
    "status": "where one run stands",
    "judge": "judge answers in a file against their golds",
    "answers": "read a run's answers, before and after, side by side",
    "workers": "who works on the farm, and at what",
    "pause": "have a queue or a worker take no more tasks",
    "resume": "have it take tasks again",
    "doctor": "check everything that a run needs, and say how to mend it",
    "farm": "start, stop or look at the embedded farm",
    "flower": "watch a farm in a browser, and retry what failed",
}


def make_parser() -> argparse.ArgumentParser:
    """The top-level parser, with the commands' names and no more."""
    parser = EscapingParser(
        prog="orchestrator",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    listed = "\n".join(f"  {name:<9} {text}" for name, text in COMMANDS.items())
    parser.epilog = f"commands (each has its own --help):\n{listed}\n\n{EPILOG}"
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of the commands below")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit with its status.  Wrong arguments are status 1, as wrong settings are."""
    try:
        parsed = make_parser().parse_args(argv)
        command = importlib.import_module(f"orchestrator.commands.{parsed.command}")
        arguments = command.make_parser().parse_args(parsed.arguments)
    except SystemExit as stop:  # argparse exits with 2 on wrong arguments, which here means a broken run
        sys.exit(1 if stop.code == 2 else stop.code)
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of files may hold bytes that are no UTF-8
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = command.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status)
