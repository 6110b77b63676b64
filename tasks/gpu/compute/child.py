"""The child's side: a program that computes, and reports to its parent in JSON lines on standard output.

A report is any JSON object without "result"; the last line is {"result": {...}}.  On an error that the program foresees
it prints one line to standard error and exits with 1.  SIGTERM ends it in order.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

_QUIET = {"TQDM_DISABLE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error"}

SendReport = Callable[..., None]
"""Sends its keyword arguments to the parent, as one report."""


def work_as_child(work: Callable[[SendReport], Mapping[str, Any]], *foreseen: type[Exception]) -> int:
    """Do `work`, send what it returns as the result, and return the exit status.  `foreseen` errors are one line."""
    signal.signal(signal.SIGTERM, _exit)
    os.environ.update(_QUIET)
    logging.disable(logging.WARNING)  # standard error is for one line of error
    # Libraries may print to standard output, which is for the JSON lines alone.
    lines, sys.stdout = sys.stdout, sys.stderr

    def send(**values: Any) -> None:
        print(json.dumps(values), file=lines, flush=True)

    try:
        send(result=dict(work(send)))
    except foreseen as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    return 0


def _exit(number: int, frame: FrameType | None) -> None:
    """Exit in order, so that what is unfinished is removed."""
    raise SystemExit(128 + number)
