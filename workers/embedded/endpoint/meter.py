"""Requests and tokens a minute, as an account's limits: what is left, and when there is more."""

from __future__ import annotations

from collections.abc import Callable


class Meter:
    """A bucket that holds a minute's worth and fills evenly. `clock` in seconds."""

    def __init__(self, a_minute: int, clock: Callable[[], float]) -> None:
        self.limit = a_minute
        self._clock = clock
        self._left = float(a_minute)
        self._at = clock()

    def wait(self, cost: int) -> float:
        """Seconds until `cost` may be taken; 0 for now. More than the bucket holds is taken as the whole bucket."""
        self._fill()
        return max(0.0, min(cost, self.limit) - self._left) * 60 / self.limit

    def take(self, cost: int) -> None:
        self._fill()
        self._left = max(0.0, self._left - cost)

    def headers(self, what: str) -> dict[str, str]:
        """OpenAI's `x-ratelimit-*` headers for "requests" or "tokens"."""
        self._fill()
        return {
            f"x-ratelimit-limit-{what}": str(self.limit),
            f"x-ratelimit-remaining-{what}": str(int(self._left)),
            f"x-ratelimit-reset-{what}": f"{(self.limit - self._left) * 60 / self.limit:.3f}s",
        }

    def _fill(self) -> None:
        now = self._clock()
        self._left = min(float(self.limit), self._left + (now - self._at) * self.limit / 60)
        self._at = now
