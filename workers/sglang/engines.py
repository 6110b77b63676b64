"""What differs between target servers: command line, socket, key, and how a server is stopped.

Every server answers SGLang's routes.  For another engine, add a class, its line in `ENGINES`, and its name to
`EngineName` in `tasks/records.py`.  A class has

    stop_grace_s, health_s  seconds between SIGTERM and SIGKILL, and without an answer until the server counts as hung
    death_signal            sent to the server when the worker dies
    command                 its command line without address, key and the arguments of the target's settings
    processor_arguments     what follows when the server loads a processor file
    listen                  what makes it listen on a Unix socket; when it is ready, nowhere else
    pass_key                what gives it its key, which no argument may hold: all users of the machine can read them
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tasks.records import Target
from workers.steering import DESCRIPTOR_VARIABLE, SOCKET_VARIABLE

KEY_VARIABLE = "WHETSTONE_TARGET_KEY"


Listening = tuple[tuple[str, ...], Mapping[str, str], tuple[int, ...]]
"""Arguments and environment variables of a server, and the descriptors that it inherits."""


class Embedded:
    stop_grace_s, health_s, death_signal = 2.0, 10.0, signal.SIGTERM

    def command(self, target: Target, model: str, labels: Path, dtype: str, log: Path) -> list[str]:
        options = ["--model", model, "--labels", str(labels), "--dtype", dtype, "--requests-log", str(log)]
        return [sys.executable, "-m", "workers.embedded.target", *options]

    def processor_arguments(self, processor: Path) -> list[str]:
        return ["--processor", str(processor)]

    @contextmanager
    def listen(self, path: Path) -> Iterator[Listening]:
        yield ("--uds", str(path)), {}, ()

    def pass_key(self, key: str, file: Path) -> tuple[list[str], dict[str, str]]:
        return [], {KEY_VARIABLE: key}


class SGLang:
    """SGLang on a GPU, or any server that takes its options."""

    # It finishes its requests before it stops; its /health generates a token; its own processes end with the first.
    stop_grace_s, health_s, death_signal = 10.0, 30.0, signal.SIGKILL

    def command(self, target: Target, model: str, labels: Path, dtype: str, log: Path) -> list[str]:
        return [*shlex.split(target.command), "--model-path", model]

    def processor_arguments(self, processor: Path) -> list[str]:
        """With overlap scheduling a processor would see each answer without its last token."""
        return ["--enable-custom-logit-processor", "--disable-overlap-schedule"]

    @contextmanager
    def listen(self, path: Path) -> Iterator[Listening]:
        """On a TCP port too, which nobody else can bind from now on; the plugin closes it when the server is warm."""
        with socket.socket() as port:
            port.bind(("127.0.0.1", 0))
            arguments = ("--host", "127.0.0.1", "--port", str(port.getsockname()[1]))
            variables = {SOCKET_VARIABLE: str(path), DESCRIPTOR_VARIABLE: str(port.fileno())}
            yield arguments, variables, (port.fileno(),)

    def pass_key(self, key: str, file: Path) -> tuple[list[str], dict[str, str]]:
        file.unlink(missing_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        file.write_text(f"api-key: {key}\n")
        return ["--config", str(file)], {}


ENGINES: Mapping[str, Embedded | SGLang] = {"embedded": Embedded(), "sglang": SGLang()}
