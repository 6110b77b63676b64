"""Clients of the farm's Redis or Valkey: how long they wait for it, locks, and writes in the name of a run."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, cast

import redis
from redis.backoff import NoBackoff
from redis.exceptions import LockError
from redis.retry import Retry

from tasks.store import keys
from tasks.store.keys import lock_key, run_key

log = logging.getLogger(__name__)
T = TypeVar("T")

WAIT_VARIABLE = "WHETSTONE_STORE_WAIT_S"  # seconds
DEFAULT_WAIT_S = 120.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
REPORT_AFTER_S = 3.0  # a restart takes less
NO_MORE_WAITING_S = 30.0  # after the time is up, in which a process ends its work in order
ROOM_PAUSE_S = 5.0  # between two attempts to make room in a server's memory

# The words of a server that refuses for a reason that may pass, also inside the errors of scripts and transactions.
_REFUSAL = re.compile(r"\b(MISCONF|OOM|READONLY|UNBLOCKED|NOREPLICAS|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|LOADING|BUSY)\b")
_NO_ANSWER = (redis.ConnectionError, redis.TimeoutError, OSError)


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

    redis-py calls this around every command, pipeline and connection; a command may have been applied already, so every
    change of the store may be sent twice.

    `report` gets a line when the store has refused for some seconds.  `check` is called before each pause, and may
    raise; `make_room` every few seconds while the server's memory is full.  When the time is up, commands are sent
    once, for a while: what a process still does to end in order does not wait again.
    Raises: StoreUnusable when the time is up; with `limit_s` 0, the error itself.
    """

    def __init__(
        self,
        limit_s: float,
        report: Callable[[str], None] = log.warning,
        check: Callable[[], object] = lambda: None,
    ) -> None:
        # redis-py fails on a Unix socket once it counts more tries than this; the time is our limit.
        super().__init__(NoBackoff(), retries=sys.maxsize)
        self.limit_s, self.report, self.check = limit_s, report, check
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
        began, failures, pause_s = time.monotonic(), 0, FIRST_PAUSE_S
        while True:
            try:
                return do()
            except Exception as error:
                reason = refusal_of(error)
                if reason is None or (is_retryable is not None and not is_retryable(error)):
                    raise
                failures += 1
                fail(error, failures) if with_failure_count else fail(error)
                now = time.monotonic()
                if now - began >= self.limit_s or now - self._ended < NO_MORE_WAITING_S:
                    if not self.limit_s:
                        raise
                    self._ended = now
                    raise StoreUnusable(reason, self.limit_s) from error
            self.check()
            self._note(reason, now - began, now)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _note(self, reason: str, waited_s: float, now: float) -> None:
        if "OOM" in reason and now - self._room_at >= ROOM_PAUSE_S:
            self._room_at = now
            try:
                self.make_room()
            except redis.RedisError as error:
                log.warning("no room could be made in the store: %s", error)
        if waited_s >= REPORT_AFTER_S:
            if now - self._reported_at > 2 * LONGEST_PAUSE_S + REPORT_AFTER_S:
                self.report(f"the store {reason}; waiting, {self.limit_s:.0f} s at most")
            self._reported_at = now


def wait_limit_of(environment: Mapping[str, str] = os.environ) -> float:
    try:
        return float(environment.get(WAIT_VARIABLE) or DEFAULT_WAIT_S)
    except ValueError:
        raise ValueError(f"{WAIT_VARIABLE} is a number of seconds, not {environment[WAIT_VARIABLE]!r}") from None


NO_WAITING = Waiting(0.0)
"""For what looks at the store again soon, or must not stand still."""

# Connecting.

TIMEOUT_S = 15.0  # more than a server needs for any command of ours
CONNECT_TIMEOUT_S = 5.0
HEALTH_CHECK_S = 15  # a connection that was idle for so long is checked before it is used


def connect(url: str, waiting: Waiting | None = None, timeout_s: float | None = None) -> redis.Redis:
    """A client of the server at `url`, which connects with its first command; `timeout_s` bounds a reply.

    Without a policy of its own it waits as long as the environment says, so it outlives a restart of the server.
    """
    return redis.Redis.from_url(
        url,
        retry=waiting or Waiting(wait_limit_of()),
        health_check_interval=HEALTH_CHECK_S,
        socket_timeout=TIMEOUT_S if timeout_s is None else timeout_s,
        socket_connect_timeout=CONNECT_TIMEOUT_S if timeout_s is None else timeout_s,
    )


def waiting_of(client: redis.Redis) -> Waiting:
    """The policy of a client that `connect` made."""
    return cast(Waiting, client.get_retry())


# Locks.

LOCK_S = 10.0


@contextmanager
def hold_lock(client: redis.Redis, name: str, ttl: float = LOCK_S) -> Iterator[None]:
    """Hold the lock called `name` inside the block, so that a piece of work is done once.

    Celery delivers a task at least once.  The others wait while one holds the lock, and then find the result in the
    store.  It is renewed while the block runs, and expires when its process has died.
    """
    lock = client.lock(lock_key(name), timeout=ttl, sleep=0.05, thread_local=False)
    lock.acquire()
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(ttl / 4):
            try:
                lock.reacquire()
            except LockError:
                return  # another took it after a long pause: the first result that is written stands
            except redis.RedisError:
                continue  # the server restarts; the lock is in its append-only file

    renewing = threading.Thread(target=renew, daemon=True, name=f"lock {name}")
    renewing.start()
    try:
        yield
    finally:
        ended.set()
        renewing.join()
        with suppress(LockError):  # it had expired
            lock.release()


# In the name of a run.

REFUSED = "FENCED"  # how the error of a refused write begins
# The last key is the run's lease, the last argument its owner, "" for a writer that is not the owner.
_CHECK = f"""
if ARGV[#ARGV] ~= "" and redis.call("HGET", KEYS[#KEYS], "{keys.OWNER}") ~= ARGV[#ARGV] then
    return redis.error_reply("{REFUSED} by a later owner of the run")
end
KEYS[#KEYS], ARGV[#ARGV] = nil, nil
"""
# ARGV: for each command how many parts it has, and these.  Returns the replies.
_COMMANDS = """
local replies, at = {}, 1
while at <= #ARGV do
    local parts = tonumber(ARGV[at])
    replies[#replies + 1] = redis.call(unpack(ARGV, at + 1, at + parts))
    at = at + parts + 1
end
return replies
"""
Part = str | bytes | int | float


class RunTaken(Exception):
    """Another process has taken the run over, or the run was deleted: this one must not write in its name."""


class StoreAccess:
    """One Redis or Valkey, and writes in the name of runs.  Every method is safe to call twice.

    `owner` is the run's owner as its lease has it, "" for a writer that is not its owner.  Once another process has the
    lease, what an owner writes is refused, so one that was only suspended writes nothing more.
    """

    def __init__(self, client: redis.Redis, owner: str = "") -> None:
        self.redis, self.owner = client, owner

    def _run_script(self, script: str, run_id: str, names: Sequence[str], arguments: Sequence[Part] = ()) -> Any:
        """What a script of the server returns, which is done only in the run's name."""
        names, arguments = [*names, run_key(run_id, keys.LEASE)], [*arguments, self.owner]
        try:
            return self.redis.register_script(_CHECK + script)(names, arguments)
        except redis.ResponseError as error:
            if not str(error).startswith(REFUSED):
                raise
            raise RunTaken(f"another process has taken run {run_id} over, or it was deleted") from None

    def _write(self, run_id: str, *commands: Sequence[Part]) -> list[Any]:
        """Do commands of Redis in one transaction; their raw replies."""
        parts = [part for command in commands for part in (len(command), *command)]
        replies: list[Any] = self._run_script(_COMMANDS, run_id, [], parts)
        return replies

    def metadata(self, run_id: str, name: str) -> str | None:
        return self.metadata_values(run_id, [name])[name]

    def metadata_values(self, run_id: str, names: Sequence[str]) -> dict[str, str | None]:
        values = cast("list[bytes | None]", self.redis.hmget(run_key(run_id, keys.METADATA), list(names)))
        return {name: None if value is None else value.decode() for name, value in zip(names, values, strict=True)}

    def run_ids(self) -> list[str]:
        """All runs, of every kind."""
        return sorted(run.decode() for run in cast("set[bytes]", self.redis.smembers(keys.RUNS)))

    def keys_of(self, run_id: str) -> Iterator[bytes]:
        return cast("Iterator[bytes]", self.redis.scan_iter(match=run_key(run_id, "*"), count=1000))

    def _hash_without(self, key: str, excluded: set[str]) -> dict[str, bytes]:
        """The fields of a hash but for these: what the caller has is not sent again."""
        names = sorted({name.decode() for name in cast("list[bytes]", self.redis.hkeys(key))} - excluded)
        values = cast("list[bytes | None]", self.redis.hmget(key, names)) if names else []
        return {name: value for name, value in zip(names, values, strict=True) if value is not None}
