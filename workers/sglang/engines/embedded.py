"""The target server of the embedded farm, which computes with transformers on a CPU."""

from __future__ import annotations

import signal
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tasks.records import Target
from workers.sglang.engines import LaunchFiles, ListenOptions, TargetEngine

KEY_VARIABLE = "WHETSTONE_TARGET_KEY"


def _command(_target: Target, files: LaunchFiles) -> list[str]:
    options = ["--model", files.model, "--labels", str(files.labels), "--dtype", files.dtype]
    return [sys.executable, "-m", "workers.embedded.target", *options, "--requests-log", str(files.requests_log)]


def _processor_arguments(processor: Path) -> list[str]:
    return ["--processor", str(processor)]


def _listen(path: Path) -> AbstractContextManager[ListenOptions]:
    return nullcontext(ListenOptions(("--uds", str(path))))


def _pass_key(key: str, _file: Path) -> tuple[list[str], dict[str, str]]:
    return [], {KEY_VARIABLE: key}


ENGINE = TargetEngine(
    command=_command,
    processor_arguments=_processor_arguments,
    listen=_listen,
    pass_key=_pass_key,
    stop_grace_s=2.0,
    health_s=10.0,
    death_signal=signal.SIGTERM,
)
