"""Which process works on a run: one at a time holds the run's lease, wherever its output folder is.

The lease has no time to live, because clocks may be set.  Its holder renews it every few seconds; a process that wants
the run and cannot see the holder's process watches on its own monotonic clock whether the renewals go on, as elections
of leaders do in Kubernetes.  Each write of an owner is refused once another one has the lease (`StoreAccess`).
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import socket
import uuid
from dataclasses import dataclass
from typing import cast

import redis

from tasks.common.process import ProcessIdentity, boot_id, identify, pid_namespace
from tasks.store import keys
from tasks.store.keys import run_key

# KEYS: the run's lease.  ARGV: the new owner, the owner that may be replaced ("" for none).
_TAKE = f"""
local held = redis.call("HGET", KEYS[1], "{keys.OWNER}")
if held == ARGV[1] then return 1 end
if held and held ~= ARGV[2] then return 0 end
redis.call("HSET", KEYS[1], "{keys.OWNER}", ARGV[1], "{keys.RENEWALS}", 0)
return 1
"""
_RENEW = f"""
if redis.call("HGET", KEYS[1], "{keys.OWNER}") ~= ARGV[1] then return 0 end
redis.call("HINCRBY", KEYS[1], "{keys.RENEWALS}", 1)
return 1
"""
_RELEASE = f"""
if redis.call("HGET", KEYS[1], "{keys.OWNER}") == ARGV[1] then redis.call("UNLINK", KEYS[1]) end
"""


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
        """Whether this process sees the owner's processes."""
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
        self.run_id, self.owner = run_id, owner
        self._redis, self._text = client, owner.to_json()

    def take(self, replaced: Held | None = None) -> bool:
        """Take the lease when it is free, or in the place of an owner that has ended; returns whether it was taken."""
        return bool(self._do(_TAKE, self._text, replaced.text if replaced else ""))

    def renew(self) -> bool:
        """Returns whether this process still holds it."""
        return bool(self._do(_RENEW, self._text))

    def release(self) -> None:
        """Give it up, if this process holds it."""
        self._do(_RELEASE, self._text)

    def held(self) -> Held | None:
        """Who holds it now."""
        return read_lease(self._redis, self.run_id)

    def _do(self, script: str, *arguments: str | bytes) -> object:
        return self._redis.eval(script, 1, run_key(self.run_id, keys.LEASE), *arguments)


def read_lease(client: redis.Redis, run_id: str) -> Held | None:
    """Who holds the lease of a run; None when no process does."""
    found = client.hmget(run_key(run_id, keys.LEASE), [keys.OWNER, keys.RENEWALS])
    text, renewals = cast("list[bytes | None]", found)
    return None if text is None else Held(text, int(renewals or 0), Owner(**json.loads(text)))
