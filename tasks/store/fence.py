"""What keeps a process that no longer works on a run from writing in the run's name.

Each process that takes a run over gets a higher number than the one before (tasks/store/run_lease.py), and each of its
writes carries it.  A write with a lower number than that of the latest owner is refused, in the same step on the
server in which it would have been done.  Attempts at plans and jobs are numbered from the same sequence, so a message
of an earlier owner is known by its attempt (`run_once` in tasks/task.py).

The method is that of fencing tokens: Burrows, "The Chubby lock service", OSDI 2006, section 2.4 (sequencers).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import redis

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

Part = str | bytes | int | float
Script = Callable[[str, Sequence[str], Sequence[Part]], Any]


class RunTaken(Exception):
    """Another process has taken the run over, or the run was deleted: this one must not write in its name."""


class Fence:
    """Writes in the name of runs.  `number` is that of the run's owner, None for a writer that is not its owner."""

    def __init__(self, client: redis.Redis, number: int | None = None) -> None:
        self._redis, self.number = client, number
        self._commands = self.script(_COMMANDS)

    def script(self, source: str) -> Script:
        """A Lua script as a function of run, keys and arguments, which is run for the run's owner alone.

        The function raises: RunTaken, redis.RedisError.
        """
        registered = self._redis.register_script(_CHECK + source)

        def call(run_id: str, names: Sequence[str], arguments: Sequence[Part]) -> Any:
            number = "" if self.number is None else self.number
            try:
                return registered([*names, run_key(run_id, keys.FENCE)], [*arguments, number])
            except redis.ResponseError as error:
                if not str(error).startswith(REFUSED):
                    raise
                raise RunTaken(f"another process has taken run {run_id} over, or it was deleted") from None

        return call

    def write(self, run_id: str, *commands: Sequence[Part]) -> list[Any]:
        """Do commands of Redis in one transaction; their raw replies."""
        parts = [part for command in commands for part in (len(command), *command)]
        replies: list[Any] = self._commands(run_id, [], parts)
        return replies
