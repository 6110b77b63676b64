"""The command line: the names of the commands.  The module of a command is imported when the command runs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence

import click

from orchestrator import console
from tasks.common.files import keep_private

DESCRIPTION = """\
Whetstone makes a language model answer in fewer tokens, and tests that its answers stay correct.

It finds a system prompt, and one logit bias for each cluster of the vocabulary of a served model.  Celery workers do
the work."""

EPILOG = """\
start here:
  make evolve                                        everything on this machine, with a small model
  orchestrator init                                  four questions, then a .config for your model and questions
  orchestrator evolve --config configs/gpu.config    your model on a GPU

exit status:
  0              finished
  1              the settings or arguments are wrong, and nothing was started
  2              an error while running
  3              the run is parked; `orchestrator retry RUN` resumes it
  4              another process works on the run
  129, 130, 143  the terminal hung up, Ctrl+C, SIGTERM; the same command resumes the run
  141            the reader of a list has ended, as in `orchestrator runs | head`

A run continues when nobody reads what it prints."""

GROUPS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "run": {
        "init": ("init", "write a .config from four answers"),
        "evolve": ("evolve", "find a system prompt and biases that shorten the answers, or resume such a run"),
        "collect": ("yaml_runs", "find the tokens that a model wastes"),
        "guide": ("yaml_runs", "learn rules for the prompt of a frozen model, from labelled tickets"),
        "route": ("yaml_runs", "train a model with gradient routing, and test what this keeps out"),
        "retry": ("runs", "resume a run that parked or was stopped; finished work is not repeated"),
        "cancel": ("runs", "stop a run and keep its results"),
    },
    "look": {
        "runs": ("runs", "list runs and their state, or delete one from the farm"),
        "status": ("runs", "show the state of one run"),
        "failed": ("runs", "list failed tasks and their errors"),
        "report": ("report", "write a page that shows a run, or several side by side"),
        "compare": ("report", "print the figures of runs side by side, or a run's answers before and after"),
        "best": ("report", "name the best system over several runs on the same questions"),
        "judge": ("judge", "judge the answers in a file by their right answers"),
    },
    "serve": {"export": ("export", "write what a run has found as a file for an inference engine")},
    "farm": {
        "farm": ("farm", "start, stop or show the embedded farm; list or pause workers; remove old results"),
        "doctor": ("doctor", "check everything that a run needs, with a hint for each problem"),
        "flower": ("flower", "monitor a farm in a browser, and retry failed tasks"),
    },
}
"""The commands by what they are for: the module in `orchestrator/commands` that has one under its name, and a line."""
COMMANDS = {name: found for group in GROUPS.values() for name, found in group.items()}


class Commands(click.Group):
    """The group of all commands, which imports none of them for its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = "retry" if cmd_name == "resume" else cmd_name
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"orchestrator.commands.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(f"usage: orchestrator COMMAND ...   (each has its own --help)\n\n{DESCRIPTION}\n\n")
        for group, commands in GROUPS.items():
            listed = "\n".join(f"  {name:<9} {text}" for name, (_, text) in commands.items())
            formatter.write(f"{group}:\n{listed}\n\n")
        formatter.write(f"{EPILOG}\n")


# The names are there for the suggestion after a misspelt one.
orchestrator = Commands("orchestrator", commands=dict.fromkeys(COMMANDS, click.Command("")))


def main(arguments: Sequence[str] | None = None) -> int:
    keep_private()
    console.open_output()
    try:
        return int(orchestrator.main(arguments, "orchestrator", standalone_mode=False) or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return console.WRONG
    except click.UsageError as error:
        hint = f"\nsee `{error.ctx.command_path} --help`" if error.ctx else ""
        return console.fail(console.WRONG, error.format_message() + hint)
    except click.Abort:
        return console.fail(console.INTERRUPTED, "interrupted")
    except console.Terminated as ended:
        return console.fail(console.BY_SIGNAL + ended.number, f"{ended}")
