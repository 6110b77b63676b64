"""Completion in a real bash: what appears when Tab is pressed, and what the shell is offered."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typed_terminal import TypedTerminal

ROOT = Path(__file__).parents[2]


class Bash(TypedTerminal):
    """An interactive bash in a folder with runs, that has read the script of `completion bash`."""

    def __init__(self, folder: Path) -> None:
        command = folder / "bin" / "orchestrator"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m orchestrator "$@"\n')
        command.chmod(0o755)
        path = f"{command.parent}:{os.environ['PATH']}"
        super().__init__(["bash", "--norc", "--noprofile", "-i"], folder, {"PATH": path, "PYTHONPATH": str(ROOT)})
        self.press(
            'PS1=; eval "$(orchestrator completion bash)"; bind "set enable-bracketed-paste off"; echo rea""dy\r'
        )
        self.wait_for("ready\n")

    def offered(self, line: str) -> list[str]:
        """What the shell is offered for a line, by the function that Tab calls."""
        self.press(
            f"COMP_LINE='{line}' COMP_POINT={len(line)}; _python_argcomplete orchestrator;"
            ' printf "<%s>" "${COMPREPLY[@]}"; echo " en""d"\r'
        )
        *_, answer = self.wait_for("> end").splitlines()
        return [word.strip() for word in answer.removesuffix("> end").removeprefix("<").split("><")]


@pytest.fixture
def bash(tmp_path: Path) -> Iterator[Bash]:
    for run in ("outputs/first", "outputs/second", "elsewhere/third"):
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "run.json").write_text("{}")
    bash = Bash(tmp_path)
    yield bash
    bash.close()


def test_tab_completes_a_command_and_the_folder_of_a_run(bash: Bash) -> None:
    bash.press("orchestrator stat\t")
    bash.wait_for("orchestrator status ")
    bash.press("outputs/f\t")
    bash.wait_for("outputs/first ")


def test_a_shell_is_offered_runs_options_settings_and_their_values(bash: Bash) -> None:
    assert {"outputs/first", "outputs/second", "--help"} == set(bash.offered("orchestrator cancel "))
    assert "elsewhere/third" in bash.offered("orchestrator retry elsewhere/t")
    assert bash.offered("orchestrator evolve --fr") == ["--fresh"]
    assert "NGEN=" in bash.offered("orchestrator evolve --set NG")
    assert bash.offered("orchestrator evolve --set OPTIMISER=c") == ["cma"]
    assert bash.offered("orchestrator workers --pause o") == ["openai"]
    assert bash.offered("orchestrator completion z") == ["zsh"]
