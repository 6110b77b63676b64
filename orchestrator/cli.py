"""The command line: the names of the commands.  The module of a command is imported when the command runs."""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from orchestrator import completing, console
from orchestrator.commands.common import EscapingParser
from orchestrator.console import Terminated
from orchestrator.streams import output_failure, protect_streams
from tasks.common.files import keep_private

DESCRIPTION = """\
Whetstone makes a language model answer in fewer words without becoming wrong.

It evolves one logit bias for each cluster of the vocabulary of a served model, and keeps the biases that shorten the
answers and leave them correct.  Celery workers do the work."""

EPILOG = """\
start here:
  make evolve                                        everything on this machine, with a small model
  orchestrator init                                  four questions, then a .config for your model and questions
  orchestrator evolve --config configs/gpu.config    your model on a GPU

exit status: 0 finished; 1 the settings or arguments are wrong, and nothing was started; 2 an error while running;
3 the run is parked, and `orchestrator retry RUN` resumes it; 129 the terminal hung up, 130 interrupted (Ctrl+C) and
143 terminated (SIGTERM): the same command resumes it; 141 a list whose reader has ended, as in `orchestrator runs |
head`.  A run goes on when nobody reads what it prints."""

COMMANDS = {
    "collect": "find the tokens that a model wastes",
    "evolve": "run the evolution, or resume it",
    "guide": "let a frozen model learn the rules in its prompt",
    "route": "train with gradient routing, and test what it keeps out",
    "cluster": "cluster the vocabulary of the target, without evolving",
    "failed": "list failed tasks and their errors",
    "retry": "resume a parked run; finished work is not repeated",
    "cancel": "stop a run and keep its results",
    "runs": "list runs and their state, or delete one from the farm",
    "status": "show the state of one run",
    "judge": "judge the answers in a file against their gold answers",
    "export": "write what a run has found as a file for an inference engine",
    "report": "write a page that shows a run, or several",
    "compare": "print the most important figures of runs side by side",
    "answers": "show a run's answers before and after, side by side",
    "show": "show one individual of a run: its deltas, its scratchpad, its descent",
    "workers": "list the workers of the farm and their tasks, or pause some",
    "doctor": "check everything that a run needs, with a hint for each problem",
    "gc": "show what a farm no longer needs, and remove it",
    "farm": "start, stop or show the embedded farm",
    "init": "write a .config from four answers",
    "flower": "monitor a farm in a browser, and retry failed tasks",
    "completion": "print the script for completion in bash, zsh or fish",
}


RUNS = ("collect", "evolve", "flower", "guide", "retry", "route")
"""Of all others, what they print is what they are for."""


def make_parser() -> argparse.ArgumentParser:
    """The top-level parser, with the names of the commands only."""
    parser = EscapingParser(
        prog="orchestrator",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    listed = "\n".join(f"  {name:<10} {text}" for name, text in COMMANDS.items())
    parser.epilog = f"commands (each has its own --help):\n{listed}\n\n{EPILOG}"
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of the commands below")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments of the command")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit with its status.  Wrong arguments are status 1, like wrong settings."""
    keep_private()
    if completing.is_asked(os.environ):
        completing.answer_shell(COMMANDS)
    protect_streams()
    name = ""
    try:
        parsed = make_parser().parse_args(argv)
        name = parsed.command
        command = _import(name)
        arguments = command.make_parser().parse_args(parsed.arguments)
        status = command.run(arguments)
    except SystemExit as stop:  # argparse exits with 2 for wrong arguments; here 2 is an error while running
        status = console.WRONG if stop.code == 2 else stop.code
    except KeyboardInterrupt:
        status = console.fail(console.INTERRUPTED, "interrupted")
    except Terminated as ended:
        status = console.fail(console.BY_SIGNAL + ended.number, f"{ended}")
    sys.exit(_after_output(status, name))


def _import(name: str) -> ModuleType:
    """The module of a command."""
    from tasks.common.logs import SecretError
    from tasks.store.client import AddressError

    try:
        return importlib.import_module(f"orchestrator.commands.{name}")
    except (SecretError, AddressError) as error:  # Celery's application is made of the environment
        raise SystemExit(console.fail(console.WRONG, str(error))) from None


def _after_output(status: int, name: str) -> int:
    """The status of a command that may have lost its standard output."""
    failure = output_failure()
    if failure is None or status != console.DONE or name in RUNS:
        return status
    if failure.errno == errno.EPIPE:  # for example `head`, which has read enough
        return console.OUTPUT_CLOSED
    return console.fail(console.BROKEN, f"standard output cannot be written: {failure.strerror}")
