"""`python -m orchestrator.settings`: Kconfig's tools, run as a person runs them."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.settings import load_settings
from orchestrator.settings.__main__ import main

COMMAND = [sys.executable, "-m", "orchestrator.settings"]


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "KCONFIG_CONFIG")}
    command = COMMAND + [str(argument) for argument in arguments]
    return subprocess.run(
        command, env=kept | environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )


class Terminal:
    """A real terminal with menuconfig in it."""

    def __init__(self, config: Path) -> None:
        self.ours, theirs = pty.openpty()
        environment = os.environ | {"TERM": "xterm", "LINES": "40", "COLUMNS": "110", "LC_ALL": "C.UTF-8"}
        command = [*COMMAND, "menuconfig", "--config", str(config)]
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)

    def wait_for(self, text: bytes) -> None:
        """Read what is drawn until `text` is; an early end of the process is an error."""
        seen = b""
        while text not in seen:
            seen += os.read(self.ours, 4096)

    def press(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def read_to_the_end(self) -> int:
        try:
            while os.read(self.ours, 4096):
                pass
        except OSError:  # Linux says so when the other side of a terminal is closed
            pass
        return self.process.wait()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.ours)


def test_a_prompt_edited_in_menuconfig_keeps_its_newlines(sound: Any) -> None:
    # given a prompt with a newline, written by hand
    sound.put("TARGET_SYSTEM_PROMPT", r'"By hand.\nSecond."')
    terminal = Terminal(sound.path)
    try:
        terminal.wait_for(b"Whetstone")

        # when a person jumps to it, adds a line in the text box, saves and quits
        terminal.press("/TARGET_SYSTEM_PROMPT\r")
        terminal.press("\r" + r"\nThird." + "\r")
        terminal.press("s\r\r")
        terminal.press("q")
        ended = terminal.read_to_the_end()
    finally:
        terminal.close()

    # then all three lines are there, and so are the template's
    settings = load_settings(sound.path)
    assert ended == 0
    assert settings.target_system_prompt == "By hand.\nSecond.\nThird."
    assert settings.target_prompt_template == "Context:\n{context}\n\nQuestion:\n{query}"


def test_olddefconfig_fills_in_what_is_new_and_keeps_every_newline(sound: Any) -> None:
    sound.put("TARGET_SYSTEM_PROMPT", r'"One.\nTwo."')
    sound.leave_out("JUDGE_SEED")
    before = load_settings(sound.path)

    done = run("olddefconfig", "--config", sound.path)

    assert (done.returncode, done.stderr) == (0, "")
    assert 'CONFIG_JUDGE_SEED="42"' in sound.path.read_text()
    assert load_settings(sound.path) == before
    assert before.target_system_prompt == "One.\nTwo."


def test_olddefconfig_tells_what_it_drops(sound: Any) -> None:
    sound.put("GPU_SLOTS", "999")
    sound.append("CONFIG_GONE=1")

    done = run("olddefconfig", "--config", sound.path)

    assert done.returncode == 0
    assert any("GPU_SLOTS" in line and "999" in line for line in done.stderr.splitlines())
    assert any("GONE" in line for line in done.stderr.splitlines())
    assert load_settings(sound.path).gpu_slots == 1


def test_olddefconfig_starts_a_new_file_that_says_what_must_be_set(tmp_path: Path) -> None:
    done = run("olddefconfig", KCONFIG_CONFIG=str(tmp_path / "new.config"))

    assert done.returncode == 0
    assert "CONFIG_POPULATION_SIZE=-1" in (tmp_path / "new.config").read_text()


def test_savedefconfig_writes_only_what_differs_and_it_means_the_same(sound: Any, tmp_path: Path) -> None:
    sound.put("TARGET_SYSTEM_PROMPT", r'"One.\nTwo."')
    small = tmp_path / "defconfig"

    done = run("savedefconfig", "--config", sound.path, "--out", small)

    assert done.returncode == 0
    assert len(small.read_text().splitlines()) < len(sound.path.read_text().splitlines()) / 2
    assert load_settings(small) == load_settings(sound.path)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["savedefconfig", "--config", "missing.config"], "savedefconfig: there is no missing.config"),
        (["olddefconfig", "--config", "no/such/folder/x.config"], "olddefconfig: "),
        (["menuconfig"], "menuconfig: needs a terminal"),
        (["guiconfig"], "guiconfig: needs "),
    ],
)
def test_a_command_that_cannot_work_says_so_in_one_line(arguments: list[str], told: str) -> None:
    done = run(*arguments)

    assert done.returncode == 1
    assert done.stderr.startswith(told) and done.stderr.count("\n") == 1


def test_guiconfig_without_tkinter_points_at_menuconfig(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tkinter", None)
    monkeypatch.setenv("KCONFIG_CONFIG", ".config")

    ended = main(["guiconfig"])

    assert ended == 1
    assert "tkinter" in (told := capsys.readouterr().err) and "menuconfig" in told and told.count("\n") == 1


def test_a_terminal_that_cannot_move_its_cursor_is_told(sound: Any) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [*COMMAND, "menuconfig", "--config", str(sound.path)],
        stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, text=True, check=False,
        env=os.environ | {"TERM": "no-such-terminal"},
    )  # fmt: skip
    os.close(ours)
    os.close(theirs)

    assert done.returncode == 1
    assert done.stderr.startswith("menuconfig: this terminal cannot show menus") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("redirection", ["| true", ">/dev/full", ">&-", ">&- 2>&-"])
def test_a_file_is_written_also_where_nobody_reads_the_output(tmp_path: Path, redirection: str) -> None:
    config = tmp_path / "x.config"
    script = f'set -o pipefail; "$@" {redirection}'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *COMMAND, "olddefconfig", "--config", str(config)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "CONFIG_POPULATION_SIZE" in config.read_text()
