"""Completion in a real bash: what appears when Tab is pressed, and what the shell is offered."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
READ_S = 60  # a busy machine


class Bash:
    """An interactive bash in a terminal, in a folder with runs, that has read the script of `completion bash`."""

    def __init__(self, folder: Path) -> None:
        command = folder / "bin" / "orchestrator"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m orchestrator "$@"\n')
        command.chmod(0o755)
        environment = os.environ | {
            "PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "TERM": "dumb", "PS1": "",
            "INPUTRC": "/dev/null",
        }  # fmt: skip
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder,
            env=environment, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self.seen = ""
        self.press(
            'PS1=; eval "$(orchestrator completion bash)"; bind "set enable-bracketed-paste off"; echo rea""dy\r'
        )
        self.wait_for("ready")

    def press(self, keys: str) -> None:
        self.seen = ""
        os.write(self.ours, keys.encode())

    def wait_for(self, text: str) -> str:
        """What has appeared since the last key; an end of the shell, or silence, is an error."""
        while text not in self.seen:
            assert select.select([self.ours], [], [], READ_S)[0], f"no {text!r} in {self.seen!r}"
            self.seen += os.read(self.ours, 4096).decode()
        return self.seen

    def offered(self, line: str) -> list[str]:
        """What the shell is offered for a line, by the function that Tab calls."""
        self.press(
            f"COMP_LINE='{line}' COMP_POINT={len(line)}; _python_argcomplete orchestrator;"
            ' printf "<%s>" "${COMPREPLY[@]}"; echo " en""d"\r'
        )
        *_, answer = self.wait_for("> end").splitlines()
        return [word.strip() for word in answer.removesuffix("> end").removeprefix("<").split("><")]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.ours)


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
    assert bash.offered("orchestrator pause o") == ["openai"]
    assert bash.offered("orchestrator completion z") == ["zsh"]
