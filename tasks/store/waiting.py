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

# The words of a server that refuses for a reason that may pass, also inside the errors of scripts and transactions.
_REFUSAL = re.compile(r"\b(MISCONF|OOM|READONLY|UNBLOCKED|NOREPLICAS|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|LOADING|BUSY)\b")
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
    """Why the store refuses or does not answer, when that may pass: "refuses: OOM command not allowed ...".

    None for any other error.  Libraries above redis-py raise an error of their own from redis-py's.
    """
    while error is not None and not isinstance(error, _NO_REFUSAL):
        if isinstance(error, redis.ResponseError | redis.exceptions.BusyLoadingError):
            # redis-py takes the word out of the messages of some errors, and keeps it as their status.
            message = str(error).rpartition("caused error: ")[2]  # without the command of a pipeline
            said = f"{getattr(error, 'status_code', None) or ''} {message}".strip()
            return f"refuses: {said}" if _REFUSAL.search(said) else None
        if isinstance(error, _NO_ANSWER):
            return f"does not answer: {error}"
        error = error.__cause__
    return None


class Waiting(Retry):
    """Sends a command again until it succeeds, `limit_s` seconds at most; 0 sends it once.

    `report` is called with a line when the store has refused for some seconds.  `check` is called before each pause,
    and may raise to end the waiting.  `make_room` is called every few seconds while the server's memory is full
    (`open_store` in tasks/store/store.py).  When the time is up, commands are sent once, for a while: what a process
    still does to end in order does not wait again.
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
        self._ended = self._room_at = self._reported_at = float("-inf")

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
            self._note(state, refusal_of(state.outcome.exception() if state.outcome else None) or "")

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

    def _note(self, state: tenacity.RetryCallState, reason: str) -> None:
        """Make room where memory is short; report the reason, once while it lasts."""
        now = time.monotonic()
        if "OOM" in reason and now - self._room_at >= ROOM_PAUSE_S:
            self._room_at = now
            try:
                self.make_room()
            except redis.RedisError as error:
                log.warning("no room could be made in the store: %s", error)
        if (state.seconds_since_start or 0.0) >= REPORT_AFTER_S:
            if now - self._reported_at > 2 * LONGEST_PAUSE_S + REPORT_AFTER_S:
                self.report(f"the store {reason}; waiting, {self.limit_s:.0f} s at most")
            self._reported_at = now


def wait_limit_of(environment: Mapping[str, str] = os.environ) -> float:
    """How long a command waits for the store, in seconds."""
    try:
        return float(environment.get(WAIT_VARIABLE) or DEFAULT_WAIT_S)
    except ValueError:
        raise ValueError(f"{WAIT_VARIABLE} is a number of seconds, not {environment[WAIT_VARIABLE]!r}") from None


def waiting_of(client: redis.Redis) -> Waiting:
    """The policy of a client that `connect` made."""
    return cast(Waiting, client.get_retry())


NO_WAITING = Waiting(0.0)
"""For what looks at the store again soon, or must not stand still."""
