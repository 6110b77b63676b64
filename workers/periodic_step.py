"""A step of Celery's consumer that does something every so many seconds, as long as there is a broker connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import bootsteps


class PeriodicStep(bootsteps.StartStopStep):
    """`start` calls `repeat`; a lost connection stops the step and a new one starts it again, on the same object."""

    def __init__(self, consumer: Any, **options: Any) -> None:
        self._timer_entry: Any = None
        super().__init__(consumer, **options)

    def repeat(self, consumer: Any, seconds: float, function: Callable[..., None], *args: Any) -> None:
        """Call `function` now and then every so many seconds, from the loop that takes messages."""
        self._timer_entry = consumer.timer.call_repeatedly(seconds, function, args, priority=10)
        function(*args)

    def stop(self, consumer: Any) -> None:
        if self._timer_entry is not None:
            self._timer_entry.cancel()
            self._timer_entry = None

    def shutdown(self, consumer: Any) -> None:
        self.stop(consumer)
