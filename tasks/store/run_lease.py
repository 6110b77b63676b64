"""Which process works on a run: one at a time holds the run's lease, under its id, wherever its output folder is.

The lease has no time to live, because clocks may be set.  Its holder renews it every few seconds; a process that wants
the run and cannot see the holder's process watches on its own monotonic clock whether the renewals go on, as elections
of leaders do in Kubernetes.  Whoever takes a lease gets a higher number (tasks/store/fence.py), so a holder that was
only suspended writes nothing more.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import socket
import uuid
from dataclasses import dataclass
from typing import cast

import redis

from tasks.process_identity import ProcessIdentity, pid_namespace, this_process
from tasks.store import keys
from tasks.store.keys import run_key

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


@dataclass(frozen=True)
class Owner:
    """A process that works on a run.  `token` is its own, `since` is for people: nothing is computed from it.

    `namespace` says which processes have its pid (tasks/process_identity.py); `folder` is the run's output folder.
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
        process, now = this_process(), datetime.datetime.now().astimezone()
        return cls(
            token=uuid.uuid4().hex,
            host=socket.gethostname(),
            pid=process.pid,
            started=process.started,
            boot=process.boot,
            namespace=pid_namespace(),
            since=now.isoformat(sep=" ", timespec="seconds"),
            folder=folder,
        )

    def __str__(self) -> str:
        return f"process {self.pid} on host {self.host} (since {self.since}, folder {self.folder})"

    @property
    def is_visible(self) -> bool:
        """Whether this process sees the owner's processes, and so whether it has ended."""
        mine = this_process()
        return (self.boot, self.namespace) == (mine.boot, pid_namespace()) and bool(self.boot and self.namespace)

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
    """The lease of one run, for this process.  Every method may be called again after a lost reply.

    All raise redis.RedisError.
    """

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
    if text is None:
        return None
    return Held(text, int(renewals or 0), Owner(**json.loads(text)))
