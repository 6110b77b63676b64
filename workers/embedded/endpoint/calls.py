"""The endpoint's account of its calls: one JSON line for each call, and limits a minute as OpenAI has them."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class EndpointCall:
    """An answered call. `call_id` is its Idempotency-Key, `messages` the SHA-256 of its messages.

    The tokens are those that a reply would be billed for; 0 where it has none.
    """

    call_id: str
    schema: str
    messages: str
    status: int
    fault: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class CallLog:
    """Counts calls, and appends each to a file with seconds since 1970, before its reply is sent."""

    def __init__(self, path: Path | None) -> None:
        self._file = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a", encoding="utf-8")
        self._counts: Counter[tuple[str, int]] = Counter()
        self._answered: Counter[str] = Counter()

    def add(self, call: EndpointCall) -> None:
        self._counts[call.schema, call.status] += 1
        if call.status == 200 and call.call_id:
            self._answered[call.call_id] += 1
        if self._file is not None:
            line = asdict(call) | {"at": time.time()}
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._file.flush()

    def summary(self) -> dict[str, Any]:
        """Calls by schema and status, and the ids that were answered with 200 more than once."""
        by_schema: dict[str, dict[str, int]] = {}
        for (schema, status), count in sorted(self._counts.items()):
            by_schema.setdefault(schema, {})[str(status)] = count
        repeated = {call_id: count for call_id, count in sorted(self._answered.items()) if count > 1}
        return {"calls": self._counts.total(), "by_schema": by_schema, "repeated": repeated}

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class TokenBucket:
    """A limit a minute, as a bucket that holds one minute's amount and fills evenly. `clock` in seconds."""

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        self.limit = limit
        self._clock = clock
        self._remaining = float(limit)
        self._at = clock()

    def wait(self, cost: int) -> float:
        """Seconds until `cost` may be taken; 0 for now. A cost above the limit is treated as the limit."""
        self._fill()
        return max(0.0, min(cost, self.limit) - self._remaining) * 60 / self.limit

    def take(self, cost: int) -> None:
        self._fill()
        self._remaining = max(0.0, self._remaining - cost)

    def headers(self, what: str) -> dict[str, str]:
        """OpenAI's `x-ratelimit-*` headers for "requests" or "tokens"."""
        self._fill()
        return {
            f"x-ratelimit-limit-{what}": str(self.limit),
            f"x-ratelimit-remaining-{what}": str(int(self._remaining)),
            f"x-ratelimit-reset-{what}": f"{(self.limit - self._remaining) * 60 / self.limit:.3f}s",
        }

    def _fill(self) -> None:
        now = self._clock()
        self._remaining = min(float(self.limit), self._remaining + (now - self._at) * self.limit / 60)
        self._at = now
