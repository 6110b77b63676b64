"""`orchestrator completion`: what a shell needs to complete the commands."""

from __future__ import annotations

import argparse

from orchestrator import console
from orchestrator.commands import common

DESCRIPTION = """\
Print the script with which a shell completes commands, options, the folders of runs, and settings after --set."""

EPILOG = """\
examples:
  orchestrator completion bash >> ~/.bashrc
  orchestrator completion zsh >> ~/.zshrc          after the line with compinit
  orchestrator completion fish > ~/.config/fish/completions/orchestrator.fish

A new shell has it.  For the current one:  eval "$(orchestrator completion bash)"

results: standard output; nothing is installed or changed.
exit status: 0 printed; 1 no such shell."""

SHELLS = ("bash", "zsh", "fish")


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("completion", DESCRIPTION, EPILOG)
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    return parser


def run(arguments: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    print(shellcode(["orchestrator"], shell=arguments.shell))
    return console.DONE
