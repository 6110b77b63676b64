"""The help of each command can be printed, and wrong arguments are named."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from orchestrator import exit_status
from orchestrator.cli import COMMANDS


def test_each_command_has_examples_and_says_what_its_statuses_mean() -> None:
    for command in COMMANDS:
        text = importlib.import_module(f"orchestrator.commands.{command}").make_parser().format_help()
        assert f"orchestrator {command}" in text and "exit status: " in text, command
        assert max(map(len, text.splitlines())) <= 120, command


@pytest.mark.parametrize(("command", "config"), [("guide", "guide.yaml"), ("route", "route_smoke.yaml")])
def test_an_option_that_is_out_of_range_is_named_as_it_is_written(
    command: str, config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    module = importlib.import_module(f"orchestrator.commands.{command}")
    given = ["--config", f"configs/{config}", "--retry-wait", "-1", "--redis-url", "nowhere"]
    assert module.run(module.make_parser().parse_args(given)) == exit_status.WRONG
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == ["--redis-url:", "--retry-wait:"]
