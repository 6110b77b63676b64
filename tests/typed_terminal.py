"""A program in a real terminal, and somebody who reads and types."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

AGAIN_S = 5
READ_S = 60  # on a busy machine


class TypedTerminal:
    """`seen` is what has appeared since the last key."""

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            # It controls the program, so that Ctrl+C is a signal, also where the tests run in the background.
            ["env", "--default-signal=INT", "setsid", "--ctty", *command],
            stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder,
            env={**os.environ, "TERM": "dumb", "INPUTRC": "/dev/null", **environment},
        )  # fmt: skip
        os.close(theirs)
        self.seen = ""

    def press(self, keys: str) -> None:
        self.seen = ""
        os.write(self.ours, keys.encode())

    def wait_for(self, text: str) -> str:
        """What has appeared since the last key.  Raises: AssertionError for silence, or when the program has ended."""
        while text not in self.seen:
            assert select.select([self.ours], [], [], READ_S)[0], f"no {text!r} in {self.seen!r}"
            try:
                piece = os.read(self.ours, 4096).decode("utf-8", "replace")
            except OSError:  # how Linux reports that the other side is closed
                piece = ""
            assert piece, f"no {text!r} in {self.seen!r}, and the program has ended"
            self.seen += piece.replace("\r\n", "\n")
        return self.seen

    def answer(self, question: str, text: str) -> None:
        """Type an answer once the question is there."""
        self.wait_for(question)
        self.press(text + "\n")

    def read_to_the_end(self, again: str = "") -> tuple[int, str]:
        """The exit status, and what else has appeared.

        `again` is pressed once more after each `AGAIN_S` of silence: a Ctrl+C that comes just before Python's readline
        waits for keys is only noticed with the next key.
        """
        since = time.monotonic()
        while time.monotonic() < since + READ_S:
            if not select.select([self.ours], [], [], AGAIN_S)[0]:
                os.write(self.ours, again.encode())
                continue
            try:
                piece = os.read(self.ours, 4096).decode("utf-8", "replace")
            except OSError:
                break
            if not piece:
                break
            self.seen += piece.replace("\r\n", "\n")
            since = time.monotonic()
        return self.process.wait(READ_S), self.seen

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.ours)
