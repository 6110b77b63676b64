"""The help of each command teaches: examples that can be typed, where results go, and what the exit statuses mean."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
from pathlib import Path

import pytest

from orchestrator import exit_status
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


def forms_of(command: str) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the command's other forms, by name."""
    [forms] = [action for action in parser_of(command)._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(forms.choices)


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


@pytest.mark.parametrize("command", ["guide", "route"])
def test_the_usage_shows_the_other_forms_apart_and_each_by_its_own_name(command: str) -> None:
    usage = parser_of(command).format_usage()
    assert (
        usage.split()
        == f"""usage: orchestrator {command} --config FILE [option ...]
        orchestrator {command} FORM ...""".split()
    )
    for form, parser in forms_of(command).items():
        assert parser.format_usage().startswith(f"usage: orchestrator {command} {form} ")


@pytest.mark.parametrize("command", ["guide", "route"])
def test_an_option_that_is_out_of_range_is_named_as_it_is_written(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    config = {"guide": "configs/guide.yaml", "route": "configs/route_smoke.yaml"}[command]
    module = importlib.import_module(f"orchestrator.commands.{command}")
    arguments = parser_of(command).parse_args(["--config", config, "--retry-wait", "-1", "--redis-url", "nowhere"])
    assert module.run(arguments) == exit_status.WRONG
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == ["--redis-url:", "--retry-wait:"]


@each_command
def test_each_option_is_described_and_the_help_fits_a_terminal(command: str) -> None:
    parser = parser_of(command)
    assert [action.dest for action in parser._actions if not action.help] == []
    assert max(map(len, parser.format_help().splitlines())) <= 120
