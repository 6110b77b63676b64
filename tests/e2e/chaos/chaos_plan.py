"""The plan of faults: a function of the seed."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Literal

Kind = Literal[
    "kill -9", "stop and continue", "broker restart", "connection cut", "silent connection", "disk full",
    "refusing store", "hung target", "faulty replies",
]  # fmt: skip
# The relative frequency of each kind, and what it happens to, in turn.
SHARES: Mapping[Kind, int] = {
    "kill -9": 9, "stop and continue": 4, "broker restart": 2, "connection cut": 3, "silent connection": 2,
    "disk full": 4, "refusing store": 2, "hung target": 1, "faulty replies": 6,
}  # fmt: skip
VICTIMS: Mapping[Kind, tuple[str, ...]] = {
    "kill -9": ("gpu", "target", "openai", "orchestrator", "cpu", "valkey", "pool child", "endpoint", "supervisor"),
    "stop and continue": ("gpu", "valkey", "openai", "target", "cpu", "endpoint", "orchestrator", "supervisor"),
    "broker restart": ("valkey",),
    "connection cut": ("valkey", "endpoint"),
    "silent connection": ("valkey", "endpoint"),
    "disk full": ("orchestrator", "valkey"),
    "refusing store": ("valkey",),
    "hung target": ("target",),
    "faulty replies": ("*:rate_limit:0.3:10", "*:500:5", "*:invalid_json:1"),
}
MOST_CALLS_BETWEEN = 5
SHORTEST_S, LONGEST_S = 1.0, 12.0  # of the faults that last; after 10 s without its lease a task is delivered again


@dataclass(frozen=True)
class Fault:
    """One fault: `after` so many answered calls since the previous one, for `seconds` where its kind lasts."""

    kind: Kind
    victim: str
    after: int
    seconds: float

    @property
    def name(self) -> str:
        return f"{self.kind} ({self.victim})"


def faults(seed: int, count: int, only: Collection[str] = ()) -> list[Fault]:
    """`count` faults of all kinds, or `only` of some, in an order and at moments that the seed alone decides."""
    rng = random.Random(f"chaos {seed}")
    turns: dict[Kind, Iterator[str]] = {kind: cycle(rng.sample(who, len(who))) for kind, who in VICTIMS.items()}
    drawn: list[Fault] = []
    while len(drawn) < count:
        kinds = [kind for kind, share in SHARES.items() for _ in range(share) if kind in (only or SHARES)]
        rng.shuffle(kinds)
        for kind in kinds:
            after, seconds = rng.randint(1, MOST_CALLS_BETWEEN), round(rng.uniform(SHORTEST_S, LONGEST_S), 1)
            drawn.append(Fault(kind, next(turns[kind]), after, seconds))
    return drawn[:count]
