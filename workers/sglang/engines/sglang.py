"""SGLang on a GPU, or any server that takes its options."""

from __future__ import annotations

import os
import shlex
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks.records import Target
from workers.sglang.engines import LaunchFiles, ListenOptions, TargetEngine
from workers.steering import DESCRIPTOR_VARIABLE, SOCKET_VARIABLE


def _command(target: Target, files: LaunchFiles) -> list[str]:
    return [*shlex.split(target.command), "--model-path", files.model]


def _processor_arguments(_processor: Path) -> list[str]:
    """A request names the processor, and the server imports it from its module path.

    With overlap scheduling a processor would see each answer without its last token.
    """
    return ["--enable-custom-logit-processor", "--disable-overlap-schedule"]


@contextmanager
def _listen(path: Path) -> Iterator[ListenOptions]:
    """A TCP port as well, which the steering plugin closes when the server is warm.

    It is bound here, without SO_REUSEADDR and SO_REUSEPORT: from now on the kernel gives it to nobody else.
    """
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        arguments = ("--host", "127.0.0.1", "--port", str(port.getsockname()[1]))
        variables = {SOCKET_VARIABLE: str(path), DESCRIPTOR_VARIABLE: str(port.fileno())}
        yield ListenOptions(arguments, variables, (port.fileno(),))


def _pass_key(key: str, file: Path) -> tuple[list[str], dict[str, str]]:
    file.unlink(missing_ok=True)
    os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    file.write_text(f"api-key: {key}\n")
    return ["--config", str(file)], {}


ENGINE = TargetEngine(
    command=_command,
    processor_arguments=_processor_arguments,
    listen=_listen,
    pass_key=_pass_key,
    stop_grace_s=10.0,  # it finishes its requests first, without a limit of its own
    health_s=30.0,  # its /health generates a token, among many others
    death_signal=signal.SIGKILL,  # it would finish its requests, and its own processes end with the first
)
