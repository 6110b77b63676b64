"""The help of every command says what its exit statuses mean, and is printed without a farm's libraries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from orchestrator.cli import GROUPS, main, orchestrator


def commands(group: click.Group, *names: str) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        yield from commands(found, *names, name) if isinstance(found, click.Group) else [(*names, name)]


@pytest.mark.parametrize("names", list(commands(orchestrator)), ids=" ".join)
def test_the_help_of_a_command_says_what_each_exit_status_means(names: tuple[str, ...]) -> None:
    command: click.Command = orchestrator
    for name in names:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    assert "exit status: " in command.get_help(click.Context(command, info_name=names[-1]))


@pytest.mark.parametrize("name", ["evolve", "collect", "guide", "route", "init", "farm"])
def test_the_help_of_a_command_imports_neither_celery_nor_redis(name: str) -> None:
    code = f"import sys; from orchestrator.cli import main; main(['{name}', '--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"celery", "redis", "torch"} & set(done.stdout.splitlines()[-1].split())


def test_the_help_groups_at_most_eighteen_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    groups = capsys.readouterr().out.split("\n\n")
    assert [text.partition(":")[0] for text in groups if text.startswith(tuple(GROUPS))] == [
        "run",
        "look",
        "serve",
        "farm",
    ]
    assert len(orchestrator.list_commands(click.Context(orchestrator))) <= 18


def test_a_command_that_is_misspelt_is_answered_with_the_one_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    for typed, meant in ((["evolv"], "evolve"), (["farm", "stauts"], "status"), (["runs", "--jsno"], "--json")):
        assert main(typed) == 1
        assert meant in capsys.readouterr().err
