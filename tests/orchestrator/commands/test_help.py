"""The help of each command teaches: examples that can be typed, where results go, and what the exit statuses mean."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex

import pytest

from orchestrator.cli import COMMANDS

each_command = pytest.mark.parametrize("command", COMMANDS)


def parser_of(command: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = importlib.import_module(f"orchestrator.commands.{command}").make_parser()
    return parser


def examples(command: str) -> list[str]:
    """The lines of the help's examples with this command, without what is said about them."""
    _, _, after = (parser_of(command).epilog or "").partition("examples:\n")
    block = re.split(r"\n(?!  )", after)[0].replace("\\\n", " ")
    lines = [re.sub(r" {3,}[^ -].*", "", line.strip()) for line in block.splitlines()]
    return [line for line in lines if re.search(rf"(^| )orchestrator {command}\b", line)]


@each_command
def test_a_command_has_an_example_and_each_can_be_typed(command: str) -> None:
    found = examples(command)
    assert found
    for line in found:
        words = shlex.split(line.partition(f"orchestrator {command}")[2])
        arguments = [word for word in words if word not in ("|", ">>", ">")]
        redirected = len([word for word in words if word in (">>", ">")])
        parser_of(command).parse_args(arguments[: len(arguments) - redirected])


@each_command
def test_a_command_says_where_results_go_and_what_its_statuses_mean(command: str) -> None:
    text = parser_of(command).epilog or ""
    assert re.search(r"^results: ", text, re.MULTILINE)
    assert re.search(r"^exit status: ", text, re.MULTILINE)


@each_command
def test_each_option_is_described_and_the_help_fits_a_terminal(command: str) -> None:
    parser = parser_of(command)
    assert [action.dest for action in parser._actions if not action.help] == []
    assert max(map(len, parser.format_help().splitlines())) <= 120
