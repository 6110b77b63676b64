"""What a run has spent and what its calls in flight may still cost, over all workers together.

Two hashes of the run, changed only by the scripts below, each of which sees both.  The counters hold what answered
calls used; the other hash has one field for each call that was begun and is not settled, with the most that it can
cost.  A call whose worker died, or whose reply was lost, stays there: it may have been paid, and the budget must hold
all the same.  Every change can be sent twice and happens once: the call's id is the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import redis

# Calls in flight are few (threads of all workers), so each script may look at all of them.
_SUMS = """
local clock = redis.call("TIME")
local now = clock[1] + clock[2] / 1000000
local spent = tonumber(redis.call("HGET", KEYS[1], "cost_usd") or 0)
local in_flight, unconfirmed = 0, 0
for _, text in ipairs(redis.call("HVALS", KEYS[2])) do
    local call = cjson.decode(text)
    if call[2] > now then in_flight = in_flight + call[1] else unconfirmed = unconfirmed + call[1] end
end
"""
_REPLY = 'return {fits, string.format("%.17g %.17g %.17g", spent, in_flight, unconfirmed)}'
# A trillionth of a dollar is the dust of adding floats up.
_RESERVE = f"""
{_SUMS}
local most, budget, life = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local fits = 1
if redis.call("HEXISTS", KEYS[2], ARGV[1]) == 0 then
    if budget > 0 and spent + in_flight + unconfirmed + most > budget + 1e-12 then
        fits = 0
    else
        redis.call("HSET", KEYS[2], ARGV[1], cjson.encode({{most, now + life}}))
        redis.call("HINCRBYFLOAT", KEYS[1], "requests", 1)
    end
end
{_REPLY}
"""
_READ = f"{_SUMS} local fits = 1 {_REPLY}"
_SETTLE = """
if redis.call("HDEL", KEYS[2], ARGV[1]) == 0 then return 0 end
for i = 2, #ARGV, 2 do redis.call("HINCRBYFLOAT", KEYS[1], ARGV[i], ARGV[i + 1]) end
return 1
"""
_MARK = """
local text = redis.call("HGET", KEYS[2], ARGV[1])
if text then redis.call("HSET", KEYS[2], ARGV[1], cjson.encode({cjson.decode(text)[1], 0})) end
"""


@dataclass(frozen=True)
class Spending:
    """US dollars: what answered calls cost, those in flight at most, and the most that unconfirmed calls cost."""

    spent: float
    in_flight: float
    unconfirmed: float


class Ledger:
    """The spending of one run.  `counters` and `calls` are the keys of its two hashes."""

    def __init__(self, client: redis.Redis, counters: str, calls: str) -> None:
        self._keys = [counters, calls]
        self._reserve, self._settle = client.register_script(_RESERVE), client.register_script(_SETTLE)
        self._mark, self._read = client.register_script(_MARK), client.register_script(_READ)

    def reserve(self, call: str, most: float, budget: float, life_s: float) -> tuple[bool, Spending]:
        """Set `most` dollars aside for a call, unless the run could then exceed its budget (0 is none).

        Returns whether it fits, and the spending without this call.  `life_s`: after so many seconds without
        being settled the call counts as unconfirmed.
        """
        fits, sums = cast(
            "tuple[int, bytes]", self._reserve(self._keys, [call, repr(most), repr(budget), repr(life_s)])
        )
        return bool(fits), _spending(sums)

    def settle(self, call: str, counts: Mapping[str, float]) -> None:
        """Put a call's own counts in the place of what was set aside for it; a second time changes nothing."""
        self._settle(self._keys, [call, *(part for name, count in counts.items() for part in (name, repr(count)))])

    def mark_unconfirmed(self, call: str) -> None:
        """Note that a call's reply was lost: it may have been paid, and stays counted at the most that it can cost."""
        self._mark(self._keys, [call])

    def spending(self) -> Spending:
        return _spending(cast("tuple[int, bytes]", self._read(self._keys))[1])


def _spending(sums: bytes) -> Spending:
    spent, in_flight, unconfirmed = (float(part) for part in sums.split())
    return Spending(spent, in_flight, unconfirmed)
