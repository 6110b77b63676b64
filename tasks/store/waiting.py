"""The one policy for a store that refuses or does not answer: commands are sent again, for a limited time.

A Redis or Valkey refuses for reasons that pass: its disk or its memory is full, it has become a replica, it loads its
data, it was restarted.  redis-py calls a `Waiting` around every command, pipeline and connection of a client that was
made with it (tasks/store/client.py), so the callers know nothing of it.  A command may then have been applied already:
every change of the store may be sent twice.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from typing import TypeVar, cast

import redis
import tenacity
from redis.backoff import NoBackoff
from redis.retry import Retry

log = logging.getLogger(__name__)

WAIT_VARIABLE = "WHETSTONE_STORE_WAIT_S"  # seconds
DEFAULT_WAIT_S = 120.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
REPORT_AFTER_S = 3.0  # a restart takes less
NO_MORE_WAITING_S = 30.0  # after the time is up, in which a process ends its work in order
ROOM_PAUSE_S = 5.0  # between two attempts to make room in a server's memory

MEMORY_FULL = "refuses writes: its memory is full"
# The first word of a server's error, which also stands inside the errors of scripts and transactions.
REFUSALS = {
    "MISCONF": "refuses writes: its disk is full or cannot be written",
    "OOM": MEMORY_FULL,
    "READONLY": "refuses writes: it is a read-only replica",
    "UNBLOCKED": "refuses writes: it has become a replica",
    "NOREPLICAS": "refuses writes: it has too few replicas",
    "MASTERDOWN": "refuses: its primary is down",
    "CLUSTERDOWN": "refuses: its cluster is down",
    "TRYAGAIN": "refuses: its cluster is moving keys",
    "LOADING": "is loading its data",
    "BUSY": "is busy with a script",
}
_CODE = re.compile(rf"\b({'|'.join(REFUSALS)})\b")
_NO_ANSWER = (redis.ConnectionError, redis.TimeoutError, OSError)

T = TypeVar("T")


class StoreUnusable(redis.RedisError):
    """The store has refused, or has not answered, for as long as a command waits.  `reason` begins with a verb."""

    def __init__(self, reason: str, waited_s: float) -> None:
        super().__init__(f"the store {reason}, for {waited_s:.0f} s")
        self.reason, self.waited_s = reason, waited_s


_NO_REFUSAL = (
    StoreUnusable,
    redis.AuthenticationError,
    redis.exceptions.AuthorizationError,
    redis.exceptions.MaxConnectionsError,
)


def refusal_of(error: BaseException | None) -> str | None:
    """Why the store refuses or does not answer, when that may pass: "refuses writes: its disk is full".

    None for any other error.  Libraries above redis-py raise an error of their own from redis-py's.
    """
    while error is not None and not isinstance(error, _NO_REFUSAL):
        # redis-py takes the word out of the messages of some errors, and keeps it as their status.
        code = getattr(error, "status_code", None)
        if isinstance(error, redis.ResponseError | redis.exceptions.BusyLoadingError):
            found = _CODE.search(f"{code or ''} {error}")
            if found is None:
                return None
            no_space = "No space left" in str(error)
            return "refuses writes: its disk is full" if no_space else REFUSALS[found.group(1)]
        if isinstance(error, _NO_ANSWER):
            return f"does not answer: {error}"
        error = error.__cause__
    return None


class Waiting(Retry):
    """Sends a command again until it succeeds, `limit_s` seconds at most; 0 sends it once.

    `report` is called with a line when the store has refused for some seconds, and when it has changed its reason.
    `check` is called before each pause, and may raise to end the waiting.  `make_room` is called every few seconds
    while the server's memory is full (`open_store` in tasks/store/store.py).  When the time is up, commands are sent
    once, for a while: what a process still does to end in order does not wait again.
    WATCH cannot be used with it: after a refusal `Redis.transaction` would repeat without a pause and without end.
    Raises: StoreUnusable when the time is up; with `limit_s` 0, the error itself.
    """

    def __init__(
        self,
        limit_s: float,
        report: Callable[[str], None] = log.warning,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        # redis-py fails on a Unix socket once it counts more tries than this; the time is our limit.
        super().__init__(NoBackoff(), retries=sys.maxsize)
        self.limit_s, self.report, self._check = limit_s, report, check
        self.make_room: Callable[[], object] = lambda: None
        self._ended = float("-inf")  # when the time was last up
        self._room_at = float("-inf")  # when room was last made
        self._reported: tuple[float, str] = (float("-inf"), "")

    def __deepcopy__(self, memo: object) -> Waiting:
        return self  # redis-py copies the policy for each connection, and this one is for all together

    def call_with_retry(
        self,
        do: Callable[[], T],
        fail: Callable[..., object],
        is_retryable: Callable[[Exception], bool] | None = None,
        with_failure_count: bool = False,
    ) -> T:
        def is_waited_for(error: BaseException) -> bool:
            is_excluded = is_retryable is not None and isinstance(error, Exception) and not is_retryable(error)
            return refusal_of(error) is not None and not is_excluded

        def note(state: tenacity.RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            fail(error, state.attempt_number) if with_failure_count else fail(error)

        def before_pause(state: tenacity.RetryCallState) -> None:
            self._check()
            reason = refusal_of(state.outcome.exception() if state.outcome else None) or ""
            if reason == MEMORY_FULL:
                self._make_room()
            self._note(state, reason)

        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception(is_waited_for),
            stop=self._is_up,
            wait=tenacity.wait_exponential(multiplier=FIRST_PAUSE_S, max=LONGEST_PAUSE_S),
            after=note,
            before_sleep=before_pause,
            reraise=True,
        )
        try:
            return attempts(do)
        except Exception as error:
            reason = refusal_of(error)
            if reason is None or not self.limit_s:
                raise
            self._ended = time.monotonic()
            raise StoreUnusable(reason, self.limit_s) from error

    def _is_up(self, state: tenacity.RetryCallState) -> bool:
        waited = state.seconds_since_start or 0.0
        return waited >= self.limit_s or time.monotonic() - self._ended < NO_MORE_WAITING_S

    def _make_room(self) -> None:
        now = time.monotonic()
        if now - self._room_at < ROOM_PAUSE_S:
            return
        self._room_at = now
        try:
            self.make_room()
        except redis.RedisError as error:
            log.warning("no room could be made in the store: %s", error)

    def _note(self, state: tenacity.RetryCallState, reason: str) -> None:
        """Report the reason, once while it lasts."""
        waited, (at, reported) = state.seconds_since_start or 0.0, self._reported
        if waited < REPORT_AFTER_S:
            return
        now = time.monotonic()
        if reason != reported or now - at > 2 * LONGEST_PAUSE_S + REPORT_AFTER_S:
            self.report(f"the store {reason}; waiting, {self.limit_s:.0f} s at most")
        self._reported = now, reason


def wait_limit_of(environment: Mapping[str, str] = os.environ) -> float:
    """How long a command waits for the store, in seconds.  Raises: ValueError for a text that is no such number."""
    text = environment.get(WAIT_VARIABLE) or str(DEFAULT_WAIT_S)
    try:
        if 0 < (seconds := float(text)) < float("inf"):
            return seconds
    except ValueError:
        pass
    raise ValueError(f"{WAIT_VARIABLE} is a number of seconds above 0, not {text!r}")


def waiting_of(client: redis.Redis) -> Waiting:
    """The policy of a client that `connect` made."""
    return cast(Waiting, client.get_retry())


NO_WAITING = Waiting(0.0)
"""For what looks at the store again soon, or must not stand still."""
