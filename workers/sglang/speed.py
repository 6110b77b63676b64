"""python -m workers.sglang.speed < REQUEST: how fast the target answers on this machine, and how long its answers are.

It starts the target's server as a worker does, or uses the one at the target's address, and asks all prompts three
times: first the server reads them, then it has them, and at last it gets `COPIES` of each at once, which fill it as a
run does.  The reply on standard output is a `SpeedReply` as JSON; what it is doing goes to standard error.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.gpu.answer import PromptBatch, prompt_batch, requests_for
from tasks.gpu.host import TargetUnavailable
from tasks.gpu.target import TargetClient, TargetDown, TargetRefused
from tasks.models import Target
from tasks.private import keep_private
from tasks.secret import SecretError
from tasks.validation import parse_json
from workers.embedded.models import ModelUnavailable
from workers.sglang.host import LocalTargetHost

PROGRESS_S = 10.0
COPIES = 4


@dataclass(frozen=True)
class SpeedRequest:
    """Each of the questions, pairs of context and question, is asked with each of the system prompts."""

    target: Target
    system_prompts: tuple[str, ...]
    questions: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class SpeedReply:
    """tokens: of each answer, [system prompt][question]; first_s, second_s and full_s: of all requests, each time;
    copies: of each request, the last time.
    """

    start_s: float
    first_s: float
    second_s: float
    full_s: float
    copies: int
    tokens: tuple[tuple[int, ...], ...]


def ask_speed(asked: SpeedRequest, folder: Path) -> SpeedReply:
    """Raises: TargetUnavailable, TargetDown, TargetRefused, ModelUnavailable, SecretError, OSError, ValueError."""
    _report("starting the model's server")
    started = time.monotonic()
    host = LocalTargetHost(folder, "speed", dict(os.environ))
    try:
        url, key = host.serve(asked.target), host.api_key(asked.target)
        start_s = time.monotonic() - started
        client = TargetClient(url, asked.target.request_timeout_s, asked.target.concurrency, key)
        rows = tuple((str(i), context, question) for i, (context, question) in enumerate(asked.questions))
        model, template = host.model_folder(asked.target), asked.target.prompt_template
        batches = [prompt_batch(model, system, template, rows) for system in asked.system_prompts]
        progress = _Progress((2 + COPIES) * len(batches) * len(rows))
        _report(f"asking {progress.total} questions")
        tokens, first_s = _ask(client, asked.target, batches, progress)
        _, second_s = _ask(client, asked.target, batches, progress)
        _, full_s = _ask(client, asked.target, batches * COPIES, progress)
        return SpeedReply(start_s, first_s, second_s, full_s, COPIES, tokens)
    finally:
        host.close()


class _Progress:
    """Reports every `PROGRESS_S` how many of `total` answers there are."""

    def __init__(self, total: int) -> None:
        self.total, self.count, self.reported = total, 0, time.monotonic()

    def answered(self) -> None:
        self.count += 1
        if time.monotonic() - self.reported > PROGRESS_S:
            self.reported = time.monotonic()
            _report(f"answered {self.count} of {self.total}")


def _ask(
    client: TargetClient, target: Target, batches: Sequence[PromptBatch], progress: _Progress
) -> tuple[tuple[tuple[int, ...], ...], float]:
    """The tokens of each answer, and the seconds that all took."""
    requests = [
        r for batch in batches for r in requests_for(target, "", (), batch, dict.fromkeys(range(len(batch.ids)), ""))
    ]
    tokens = [0] * len(requests)

    def keep(index: int, answer: Any) -> None:
        tokens[index] = answer.completion_tokens
        progress.answered()

    started = time.monotonic()
    client.generate_many(requests, keep)
    seconds, width = time.monotonic() - started, len(batches[0].ids)
    return tuple(tuple(tokens[i : i + width]) for i in range(0, len(tokens), width)), seconds


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    keep_private()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the server is stopped
    asked: SpeedRequest = parse_json(SpeedRequest, sys.stdin.read())
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = ask_speed(asked, Path(folder))
    except KeyboardInterrupt:
        return 130
    except (TargetUnavailable, TargetDown, TargetRefused, ModelUnavailable, SecretError, OSError, ValueError) as error:
        _report(f"not measured: {str(error).splitlines()[0]}")
        return 1
    print(json.dumps(dataclasses.asdict(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
