"""Ask the target for answers: each is kept as it arrives, and a server that dies is started again.

Every task that generates text uses this.  The caller names each request by a key of its own and decides what to do
with an answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import tenacity

from tasks.gpu import host
from tasks.gpu.target import Generated, GenerateRequest, TargetClient, TargetDown
from tasks.records import Target

log = logging.getLogger(__name__)
Key = TypeVar("Key", bound=Hashable)

NO_ANSWER_S = 300.0  # how long a server that keeps dying is started again while no answer arrives
RETRY_S = 1.0  # with the same server; after that the host checks whether it still runs


def ask_target(
    target: Target,
    requests: Mapping[Key, GenerateRequest],
    on_answer: Callable[[Key, Generated], None],
    max_retries: int | None = None,
    processor: str = "",
    identity: Mapping[str, Any] | None = None,
) -> None:
    """Have all `requests` answered; `on_answer(key, answer)` is called in this thread as each answer arrives.

    When the server ends, the host starts it again and the requests without an answer are sent anew: at most
    `max_retries` times, with a growing pause, or without a limit (None) until it has only failed for `NO_ANSWER_S`
    seconds.

    `processor` and `identity` are those of `TargetHost.serve`.
    """
    unanswered = _Unanswered(dict(requests), on_answer)

    def attempt() -> None:
        if unanswered.requests:
            worker = host.current()
            with worker.serving(target):
                url = worker.serve(target, processor, identity)
                unanswered.send(_client(url, target, RETRY_S if max_retries is None else 0.0))

    tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(TargetDown),
        stop=unanswered.no_answer_for_long if max_retries is None else tenacity.stop_after_attempt(1 + max_retries),
        wait=tenacity.wait_none() if max_retries is None else tenacity.wait_random_exponential(multiplier=0.5, max=10),
        before_sleep=_log_retry,
        reraise=True,
    )(attempt)


@dataclass
class _Unanswered(Generic[Key]):
    """The requests that have no answer yet, and since when the server has only failed (None after an answer)."""

    requests: dict[Key, GenerateRequest]
    on_answer: Callable[[Key, Generated], None]
    # Not the time of the last answer: a request may have waited long for its turn.
    failing_since: float | None = None

    def send(self, client: TargetClient) -> None:
        keys = list(self.requests)
        client.generate_many(list(self.requests.values()), lambda index, answer: self._keep(keys[index], answer))

    def _keep(self, key: Key, answer: Generated) -> None:
        self.on_answer(key, answer)
        del self.requests[key]
        self.failing_since = None

    def no_answer_for_long(self, _: tenacity.RetryCallState) -> bool:
        self.failing_since = self.failing_since or time.monotonic()
        return time.monotonic() - self.failing_since > NO_ANSWER_S


def _client(url: str, target: Target, retry_s: float) -> TargetClient:
    return TargetClient(
        url,
        timeout_s=target.request_timeout_s,
        concurrency=target.concurrency,
        api_key=host.current().api_key(target),
        retry_s=retry_s,
    )


def _log_retry(state: tenacity.RetryCallState) -> None:
    log.warning("the target server does not answer any more: %s", state.outcome.exception() if state.outcome else "")
