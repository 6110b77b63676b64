"""Which process works on a run: one at a time holds the run's lease, wherever its output folder is.

The lease has no time to live, because clocks may be set.  Its holder renews it every few seconds; a process that wants
the run and cannot see the holder's process watches on its own monotonic clock whether the renewals go on, as elections
of leaders do in Kubernetes.

Whoever takes a lease gets a higher number, and each of its writes carries it.  A write with a lower number than that of
the latest owner is refused, in the same step on the server in which it would have been done; so a holder that was only
suspended writes nothing more.  Attempts at plans and jobs are numbered from the same sequence, so a message of an
earlier owner is known by its attempt (`run_once` in tasks/task.py).  The method is that of fencing tokens: Burrows,
"The Chubby lock service", OSDI 2006, section 2.4 (sequencers).
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import socket
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import redis

from tasks.common.process import ProcessIdentity, boot_id, identify, pid_namespace
from tasks.store import keys
from tasks.store.keys import run_key

REFUSED = "FENCED"  # how the error of a refused write begins
# The last key is the run's fence, the last argument the writer's number, "" for one that is not fenced.  A number that
# the store does not have is of a run that was deleted; a lower one in the store is of a server that lost its last
# second when it died.
_CHECK = f"""
local number, written_by = redis.call("HGET", KEYS[#KEYS], "{keys.NUMBER}"), ARGV[#ARGV]
if written_by ~= "" and (not number or tonumber(number) > tonumber(written_by)) then
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
# KEYS: the run's fence and lease.  ARGV: the new owner, the owner that may be replaced ("" for none).
# Returns the number, or 0 when another process holds the lease.
_TAKE = f"""
local held = redis.call("HGET", KEYS[2], "{keys.OWNER}")
if held == ARGV[1] then return tonumber(redis.call("HGET", KEYS[1], "{keys.NUMBER}")) end
if held and held ~= ARGV[2] then return 0 end
local number = redis.call("HINCRBY", KEYS[1], "{keys.SEQUENCE}", 1)
redis.call("HSET", KEYS[1], "{keys.NUMBER}", number)
redis.call("HSET", KEYS[2], "{keys.OWNER}", ARGV[1], "{keys.RENEWALS}", 0)
return number
"""
# KEYS: likewise.  ARGV: the number and the owner.  Returns whether the owner still holds the lease.  A server that lost
# its last second, because it died or was replaced by its replica, may have a lower number: no other process has taken
# the run then.  Or it has given the same number to another one.
_RENEW = f"""
local number = tonumber(redis.call("HGET", KEYS[1], "{keys.NUMBER}") or -1)
if number == -1 or number > tonumber(ARGV[1]) then return 0 end
local held = redis.call("HGET", KEYS[2], "{keys.OWNER}")
if number == tonumber(ARGV[1]) and held and held ~= ARGV[2] then return 0 end
if number < tonumber(ARGV[1]) then
    redis.call("HSET", KEYS[1], "{keys.NUMBER}", ARGV[1], "{keys.SEQUENCE}", ARGV[1])
end
redis.call("HSET", KEYS[2], "{keys.OWNER}", ARGV[2])
redis.call("HINCRBY", KEYS[2], "{keys.RENEWALS}", 1)
return 1
"""
_RELEASE = f"""
if redis.call("HGET", KEYS[1], "{keys.OWNER}") == ARGV[1] then redis.call("UNLINK", KEYS[1]) end
"""

Part = str | bytes | int | float
Script = Callable[[str, Sequence[str], Sequence[Part]], Any]


class RunTaken(Exception):
    """Another process has taken the run over, or the run was deleted: this one must not write in its name."""


class StoreAccess:
    """One Redis or Valkey, and writes in the name of runs.  Every method is safe to call twice.

    `number` is that of the run's owner, None for a writer that is not its owner.  Writes of an owner raise RunTaken
    after another process has taken the run over.
    """

    def __init__(self, client: redis.Redis, number: int | None = None) -> None:
        self.redis, self.number = client, number
        self._commands = self._script(_COMMANDS)

    def _script(self, source: str) -> Script:
        """A script of the server as a function of a run, keys and arguments, which is done only in the run's name."""
        registered = self.redis.register_script(_CHECK + source)

        def call(run_id: str, names: Sequence[str], arguments: Sequence[Part]) -> Any:
            number = "" if self.number is None else self.number
            try:
                return registered([*names, run_key(run_id, keys.FENCE)], [*arguments, number])
            except redis.ResponseError as error:
                if not str(error).startswith(REFUSED):
                    raise
                raise RunTaken(f"another process has taken run {run_id} over, or it was deleted") from None

        return call

    def _write(self, run_id: str, *commands: Sequence[Part]) -> list[Any]:
        """Do commands of Redis in one transaction; their raw replies."""
        parts = [part for command in commands for part in (len(command), *command)]
        replies: list[Any] = self._commands(run_id, [], parts)
        return replies

    def run_ids(self) -> list[str]:
        """All runs, of every kind."""
        return sorted(run.decode() for run in cast("set[bytes]", self.redis.smembers(keys.RUNS)))

    def keys_of(self, run_id: str) -> Iterator[bytes]:
        """The run's own keys."""
        return cast("Iterator[bytes]", self.redis.scan_iter(match=run_key(run_id, "*"), count=1000))

    def _hash_without(self, key: str, excluded: set[str]) -> dict[str, bytes]:
        """The fields of a hash but for these: what the caller has is not sent again."""
        names = sorted({name.decode() for name in cast("list[bytes]", self.redis.hkeys(key))} - excluded)
        values = cast("list[bytes | None]", self.redis.hmget(key, names)) if names else []
        return {name: value for name, value in zip(names, values, strict=True) if value is not None}


@dataclass(frozen=True)
class Owner:
    """A process that works on a run.  `token` is its own, `since` is for people: nothing is computed from it.

    `namespace` says which processes have its pid; `folder` is the run's output folder.
    """

    token: str
    host: str
    pid: int
    started: float
    boot: str
    namespace: str
    since: str
    folder: str

    @classmethod
    def here(cls, folder: str) -> Owner:
        """This process, with a token of its own."""
        since = datetime.datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
        mine = identify(os.getpid())
        token, host, namespace = uuid.uuid4().hex, socket.gethostname(), pid_namespace()
        return cls(token, host, mine.pid, mine.started, mine.boot, namespace, since, folder)

    def __str__(self) -> str:
        return f"process {self.pid} on host {self.host} (since {self.since}, folder {self.folder})"

    @property
    def is_visible(self) -> bool:
        """Whether this process sees the owner's processes, and so whether it has ended."""
        return (self.boot, self.namespace) == (boot_id(), pid_namespace()) and bool(self.boot and self.namespace)

    def has_ended(self) -> bool:
        """Whether the owner has ended for certain.  One that is not visible may be at work."""
        return self.is_visible and not ProcessIdentity(self.pid, self.started, self.boot).is_alive()

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))


@dataclass(frozen=True)
class Held:
    """A lease that a process holds: `text` as it is stored, and how often it was renewed."""

    text: bytes
    renewals: int
    owner: Owner

    def __str__(self) -> str:
        return str(self.owner)


class RunLease:
    """The lease of one run, for this process.  Every method may be called again after a lost reply."""

    def __init__(self, client: redis.Redis, run_id: str, owner: Owner) -> None:
        self.run_id, self.owner, self.number = run_id, owner, 0
        self._redis = client
        self._keys = [run_key(run_id, keys.FENCE), run_key(run_id, keys.LEASE)]

    def take(self, replaced: Held | None = None) -> bool:
        """Take the lease when it is free, or in the place of an owner that has ended; returns whether it was taken."""
        arguments = [self.owner.to_json(), replaced.text if replaced else ""]
        self.number = cast(int, self._redis.eval(_TAKE, 2, *self._keys, *arguments))
        return self.number > 0

    def renew(self) -> bool:
        """Returns whether this process still holds it."""
        return bool(self._redis.eval(_RENEW, 2, *self._keys, self.number, self.owner.to_json()))

    def release(self) -> None:
        """Give it up, if this process holds it."""
        self._redis.eval(_RELEASE, 1, self._keys[1], self.owner.to_json())

    def held(self) -> Held | None:
        """Who holds it now."""
        return read_lease(self._redis, self.run_id)


def read_lease(client: redis.Redis, run_id: str) -> Held | None:
    """Who holds the lease of a run; None when no process does."""
    found = client.hmget(run_key(run_id, keys.LEASE), [keys.OWNER, keys.RENEWALS])
    text, renewals = cast("list[bytes | None]", found)
    return None if text is None else Held(text, int(renewals or 0), Owner(**json.loads(text)))
