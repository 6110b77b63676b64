"""An endpoint for a command that calls by itself, without a farm: the real one, or the embedded one for a while."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.runs.judging import AskFor
from tasks.judging.rows import Row
from tasks.judging.verdict import Ask, verdict_key
from tasks.openai.client import OpenAIClient
from tasks.openai.judge import ask_judge
from tasks.openai.limits import LocalLimiter
from tasks.openai.purse import Purse
from tasks.run import Endpoint, Judge
from tasks.secret import secret
from workers.loopback import free_port, is_healthy
from workers.process import ChildProcess, Command

READY_S, STOP_S = 30.0, 2.0
EMBEDDED_KEY_VARIABLE = "WHETSTONE_EMBEDDED_KEY"


@contextmanager
def open_endpoint(endpoint: Endpoint, line: Callable[[str], None]) -> Iterator[Endpoint]:
    """The endpoint itself where a key for it or an address of one's own is there; else the embedded one's rules.

    Raises: workers.process.ProcessFailed when the embedded one does not start.
    """
    if secret(endpoint.api_key_env) or endpoint.base_url:
        yield endpoint
        return
    line(f"{endpoint.api_key_env} is not set: the rules of the embedded endpoint judge, and no language model")
    port = free_port()
    argv = (sys.executable, "-m", "workers.embedded.endpoint", "--port", str(port))
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "endpoint.log"
        process = ChildProcess(Command("endpoint", argv, log, dict(os.environ), signal.SIGKILL))
        process.start()
        try:
            address = f"http://127.0.0.1:{port}"
            process.wait_ready(lambda: is_healthy(address), READY_S)
            os.environ[EMBEDDED_KEY_VARIABLE] = "embedded"  # it wants no secret, but the client wants some key
            yield dataclasses.replace(endpoint, base_url=f"{address}/v1", api_key_env=EMBEDDED_KEY_VARIABLE)
        finally:
            os.environ.pop(EMBEDDED_KEY_VARIABLE, None)
            process.stop(STOP_S)


def judge_asker(endpoint: Endpoint, settings: Judge, purse: Purse, answered: Callable[[str], None]) -> AskFor:
    """Makes the call to the judge for a row; `answered` is told who did.

    The call raises tasks.openai.errors.CallError.
    """
    limiter = LocalLimiter(endpoint.requests_per_minute, endpoint.tokens_per_minute)
    client = OpenAIClient(endpoint, limiter, purse)

    def ask_for(row: Row) -> Ask:
        key = verdict_key(row.question, row.gold, row.answer, settings, endpoint.base_url)
        return ask_judge(client, settings, f"judge-{key}", answered)

    return ask_for
