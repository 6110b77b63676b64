"""Judge the rows of a file: by rule alone, or with a model for what the rule leaves undecided.

Rows are read and verdicts written one after the other; only a window of rows is held in memory.  The calls go to the
real endpoint, or to an embedded one that is started for the command: no farm is needed.
"""

from __future__ import annotations

import dataclasses
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrator.farm.embedded import ENDPOINT_KEY_VARIABLE, ChildProcess, Command, is_healthy
from orchestrator.runs.kept_verdicts import KeptVerdicts
from tasks.judging.rows import AnswerRow
from tasks.judging.verdict import Ask, JudgeReplyError, judge, verdict_key
from tasks.models import Endpoint, Judge, Verdict
from tasks.openai.budget import Budget
from tasks.openai.calls import LocalReplyCounter, ReplyCounter, repeat_unusable
from tasks.openai.client import OpenAIClient
from tasks.openai.judge import ask_judge
from tasks.openai.limits import LocalLimiter

AskFor = Callable[[AnswerRow, ReplyCounter], Ask]
"""Makes the call to the judge for a row."""

WINDOW = 1024  # rows that are being judged, or wait for one before them


class _Undecided(Exception):
    """Stage 1 has decided nothing."""


def verdict_by_rule(row: AnswerRow, settings: Judge) -> Verdict | None:
    """The verdict of stage 1 alone, or None where it decides nothing."""

    def leave(system: str, user: str, schema_name: str, schema: dict[str, Any]) -> dict[str, Any]:
        raise _Undecided

    try:
        return judge(row.question, row.gold, row.answer, settings, leave)
    except _Undecided:
        return None


def judge_rows(
    rows: Iterable[AnswerRow],
    settings: Judge,
    ask_for: AskFor | None,
    kept: KeptVerdicts | None = None,
    address: str = "",
) -> Iterator[Verdict | None]:
    """A verdict for each row, in order; without `ask_for`, None where stage 1 decides nothing.

    Equal rows are asked once, and those whose verdict is in `kept` are not.  `address` is where the judge is asked.
    Raises: what a call raises; calls under way are awaited and kept then, and no more are made.
    """
    if ask_for is None:
        yield from (verdict_by_rule(row, settings) for row in rows)
        return
    calls = _Calls(settings, ask_for, KeptVerdicts() if kept is None else kept, address)
    waiting: deque[Verdict | Future[Verdict]] = deque()
    with calls:
        for row in rows:
            calls.check()
            waiting.append(verdict_by_rule(row, settings) or calls.verdict(row))
            while waiting and (len(waiting) > WINDOW or _is_decided(waiting[0])):
                yield calls.await_(waiting.popleft())
        while waiting:
            yield calls.await_(waiting.popleft())


def verdict_row(verdict: Verdict | None) -> dict[str, Any]:
    """One line of the result."""
    if verdict is None:
        return {"is_correct": None, "stage": 1, "reasoning": "Stage 1 decides nothing here."}
    return {"is_correct": verdict.is_correct, "stage": verdict.stage, "reasoning": verdict.reasoning}


class _Calls:
    """Calls to the judge, `concurrency` at a time, each row's once."""

    def __init__(self, settings: Judge, ask_for: AskFor, kept: KeptVerdicts, address: str) -> None:
        self._settings, self._ask_for, self._kept, self._address = settings, ask_for, kept, address
        self._pool = ThreadPoolExecutor(settings.concurrency)
        self._flying: dict[str, Future[Verdict]] = {}
        self._failed = threading.Event()
        self._failures: list[BaseException] = []

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        self._failed.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._kept.close()

    def check(self) -> None:
        """Raises: what the first call that failed has raised."""
        if self._failures:
            raise self._failures[0]

    def verdict(self, row: AnswerRow) -> Verdict | Future[Verdict]:
        """The verdict on a row, or the one that it is going to have."""
        key = verdict_key(row.question, row.gold, row.answer, self._settings, self._address)
        if key in self._flying:
            return self._flying[key]
        if found := self._kept.get(key):
            return found
        self._forget_finished()
        self._flying[key] = self._pool.submit(self._ask, row, key)
        return self._flying[key]

    def await_(self, verdict: Verdict | Future[Verdict]) -> Verdict:
        """Raises: what a call has raised, this one or another."""
        if isinstance(verdict, Verdict):
            return verdict
        try:
            return verdict.result()
        finally:
            self.check()  # the first failure is the reason; others only followed

    def _forget_finished(self) -> None:
        if len(self._flying) < WINDOW:
            return
        for key in [key for key, call in self._flying.items() if call.done() and not call.exception()]:
            del self._flying[key]

    def _ask(self, row: AnswerRow, key: str) -> Verdict:
        if self._failed.is_set():
            raise RuntimeError("another call has failed")
        try:
            counter = LocalReplyCounter()
            ask = self._ask_for(row, counter)
            verdict = repeat_unusable(
                lambda: judge(row.question, row.gold, row.answer, self._settings, ask), counter, (JudgeReplyError,)
            )
            self._kept.put(key, verdict)
            return verdict
        except BaseException as error:
            self._failures.append(error)
            self._failed.set()
            raise


def _is_decided(verdict: Verdict | Future[Verdict]) -> bool:
    return isinstance(verdict, Verdict) or verdict.done()


READY_S, STOP_S = 30.0, 2.0
EMBEDDED_KEY_VARIABLE = "WHETSTONE_EMBEDDED_KEY"


@contextmanager
def open_endpoint(endpoint: Endpoint, rules: bool) -> Iterator[Endpoint]:
    """The endpoint itself; with `rules`, an embedded endpoint that is started for the time of the block.

    Raises: ProcessFailed when the embedded one does not start.
    """
    if not rules:
        yield endpoint
        return
    os.environ[EMBEDDED_KEY_VARIABLE] = key = secrets.token_hex(32)
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        port, log = listener.getsockname()[1], Path(folder) / "endpoint.log"
        argv = (sys.executable, "-m", "workers.embedded.endpoint", "--fd", str(listener.fileno()))
        environment = {**os.environ, ENDPOINT_KEY_VARIABLE: key}
        process = ChildProcess(Command("endpoint", argv, log, environment, signal.SIGKILL, (listener.fileno(),)))
        process.start()
        try:
            address = f"http://127.0.0.1:{port}"
            process.wait_ready(lambda: is_healthy(address), READY_S)
            yield dataclasses.replace(endpoint, base_url=f"{address}/v1", api_key_env=EMBEDDED_KEY_VARIABLE)
        finally:
            os.environ.pop(EMBEDDED_KEY_VARIABLE, None)
            process.stop(STOP_S)


def judge_asker(endpoint: Endpoint, settings: Judge, budget: Budget, answered: Callable[[str], None]) -> AskFor:
    """Makes the call to the judge for a row; `answered` is called with the provider.

    The call raises tasks.openai.errors.CallError.
    """
    limiter = LocalLimiter(endpoint.requests_per_minute, endpoint.tokens_per_minute)
    client = OpenAIClient(endpoint, limiter, budget)

    def ask_for(row: AnswerRow, counter: ReplyCounter) -> Ask:
        key = verdict_key(row.question, row.gold, row.answer, settings, endpoint.base_url)
        return ask_judge(client, settings, f"judge-{key}", answered, counter)

    return ask_for
