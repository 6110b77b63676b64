"""`python -m orchestrator.settings`: Kconfig's tools, run as a person runs them."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

from orchestrator.settings import load_settings

COMMAND = [sys.executable, "-m", "orchestrator.settings"]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = COMMAND + [str(argument) for argument in arguments]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


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
    sound.leave_out("SEED")
    before = load_settings(sound.path)

    done = run("olddefconfig", "--config", sound.path)

    assert (done.returncode, done.stderr) == (0, "")
    assert "CONFIG_SEED=42" in sound.path.read_text()
    assert load_settings(sound.path) == before
    assert before.target_system_prompt == "One.\nTwo."


def test_olddefconfig_tells_what_it_drops(sound: Any) -> None:
    sound.put("TARGET_CONCURRENCY", "9999")
    sound.append("CONFIG_GONE=1")

    done = run("olddefconfig", "--config", sound.path)

    assert done.returncode == 0
    assert any("TARGET_CONCURRENCY" in line and "9999" in line for line in done.stderr.splitlines())
    assert any("GONE" in line for line in done.stderr.splitlines())
    assert load_settings(sound.path).target_concurrency == 32


def test_savedefconfig_writes_only_what_differs_and_it_means_the_same(sound: Any, tmp_path: Path) -> None:
    sound.put("TARGET_SYSTEM_PROMPT", r'"One.\nTwo."')
    small = tmp_path / "defconfig"

    done = run("savedefconfig", "--config", sound.path, "--out", small)

    assert done.returncode == 0
    assert len(small.read_text().splitlines()) < 30
    assert load_settings(small) == load_settings(sound.path)
