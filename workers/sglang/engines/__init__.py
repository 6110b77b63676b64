"""What differs between target servers, one module for each: command line, socket, key, and how it is stopped.

Every server answers SGLang's routes.  For another engine, add a module with `ENGINE`, and its name to `EngineName` in
`tasks/records.py`.
"""

from __future__ import annotations

import importlib
import signal
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from tasks.records import Target


@dataclass(frozen=True)
class LaunchFiles:
    """What a server is started on: `model` is a folder or a Hugging Face id; it may write its requests to a log."""

    model: str
    labels: Path
    dtype: str
    requests_log: Path


@dataclass(frozen=True)
class ListenOptions:
    """Arguments and environment variables of a server, and the descriptors that it inherits."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    descriptors: tuple[int, ...] = ()


@dataclass(frozen=True)
class TargetEngine:
    """One kind of target server.  Its name is the name of its module.

    command              the command line without address, key and the arguments of the target's settings
    processor_arguments  what follows it when the server loads this processor file
    listen               the path of a Unix socket -> what makes the server listen there; when it is ready,
                         nowhere else
    pass_key             (key, file for it) -> the arguments and the environment that give the server its key; never
                         the key in an argument, which every user of the machine can read.  The file is deleted later
    stop_grace_s         seconds between SIGTERM and SIGKILL
    health_s             a server that does not answer for so many seconds counts as hung
    death_signal         sent to the server when the worker dies
    """

    command: Callable[[Target, LaunchFiles], list[str]]
    processor_arguments: Callable[[Path], list[str]]
    listen: Callable[[Path], AbstractContextManager[ListenOptions]]
    pass_key: Callable[[str, Path], tuple[list[str], dict[str, str]]]
    stop_grace_s: float
    health_s: float
    death_signal: signal.Signals


def engine_of(name: str) -> TargetEngine:
    return cast(TargetEngine, importlib.import_module(f"{__name__}.{name}").ENGINE)
