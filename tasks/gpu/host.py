"""The worker of a task of the gpu queue, as tasks see it: its target server, how that is asked, and where models lie.

`workers.sglang.host.Host` is it, and gives itself to the worker's Celery app.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, cast

from celery import Task

from tasks.gpu.target import Generated, GenerateRequest, TargetClient, TargetDown
from tasks.records import Target
from tasks.task import GiveBack

log = logging.getLogger(__name__)

CardUse = Literal["", "serves", "computes"]
Key = TypeVar("Key", bound=Hashable)
NO_ANSWER_S = 300.0  # how long a server that keeps dying is started again while no answer arrives
RETRY_S = 1.0  # with the same server; after that the host checks whether it still runs
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 10.0  # between tries of which there are only so many


class TargetUnavailable(RuntimeError):
    """No server answers for the target."""


class CardComputes(TargetUnavailable, GiveBack):
    """A task computes on this worker's card, or waits to."""


class TargetHost(Protocol):
    """All methods may be called from several threads at once."""

    def serving(self, target: Target) -> AbstractContextManager[None]:
        """In the block no task begins to compute.  Requests are sent in it."""

    def computing(self, check: Callable[[], None], *, alone: bool = False) -> AbstractContextManager[None]:
        """In the block the card computes, beside other such tasks unless `alone`, and no server runs.

        `check` is called while this waits, and may raise.
        """

    def serve(self, target: Target, processor: str = "", identity: Mapping[str, Any] | None = None) -> str:
        """The base URL of a ready server, which is started if need be and has no `url`.

        `processor` is the text of a file that it must have loaded; `identity` is what it must still be.
        """

    def start_early(self, target: Target) -> None:
        """Start the server in the background; a failure is left to the first task that needs it."""

    def stop(self) -> None: ...

    def identity(self, target: Target) -> Mapping[str, Any]:
        """What determines the server's answers: part of every answer's key."""

    def api_key(self, target: Target) -> str | None:
        """The bearer token of the server: a new one at each start."""

    def environment(self, device: str) -> Mapping[str, str]:
        """Variables for a process that computes on `device`: on "cuda", only this worker's GPU."""

    def labels_folder(self) -> Path:
        """From which the server loads `<hash>.npy`: the cluster of each token [V]."""

    def bases_folder(self) -> Path: ...

    def model_folder(self, target: Target) -> str:
        """Where the tokenizer and configuration are loaded from: a folder, or a Hugging Face id."""

    def embedder(self, name: str) -> str: ...

    def clusters_folder(self, folder: str) -> str:
        """Where clusterings are kept on this machine; `folder` is where the run's own machine keeps them."""


def host_of(task: Task[Any, Any]) -> TargetHost:
    return cast(TargetHost, cast(Any, task.app).target_host)


def ask_target(
    host: TargetHost,
    target: Target,
    requests: Mapping[Key, GenerateRequest],
    on_answer: Callable[[Key, Generated], None],
    max_retries: int | None = None,
    processor: str = "",
    identity: Mapping[str, Any] | None = None,
) -> None:
    """Have all `requests` answered; `on_answer(key, answer)` is called in this thread as each answer arrives.

    When the server ends, the host starts it again and the requests without an answer are sent anew: at most
    `max_retries` times, or until (None) it has only failed for `NO_ANSWER_S` seconds.
    """
    unanswered, tries = dict(requests), 0
    failing_since: float | None = None  # not the last answer's time: a request may have waited long for its turn

    def keep(key: Key, answer: Generated) -> None:
        nonlocal failing_since
        on_answer(key, answer)
        del unanswered[key]
        failing_since = None

    retry_s = RETRY_S if max_retries is None else 0.0
    while unanswered:
        keys = list(unanswered)
        try:
            with host.serving(target):
                url = host.serve(target, processor, identity)
                client = TargetClient(url, target.request_timeout_s, target.concurrency, host.api_key(target), retry_s)
                client.generate_many(list(unanswered.values()), lambda at, answer: keep(keys[at], answer))  # noqa: B023
        except TargetDown as error:
            tries, failing_since = tries + 1, failing_since or time.monotonic()
            failing_s = time.monotonic() - failing_since
            if failing_s > NO_ANSWER_S if max_retries is None else tries > max_retries:
                raise
            log.warning("the target server does not answer any more: %s", error)
            if max_retries is not None:
                time.sleep(random.uniform(0, min(FIRST_PAUSE_S * 2 ** (tries - 1), LONGEST_PAUSE_S)))


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The fields in which two identities differ, in one line."""
    changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    return ", ".join(f"{name} {before.get(name)!r:.80} is now {after.get(name)!r:.80}" for name in changed)
