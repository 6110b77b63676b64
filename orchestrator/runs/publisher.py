"""What others may know of a run at work: where it stands, in the store; what it has used, in the output folder too.

The run's metadata field `standing` is for the metrics and for Flower: the run's state, its generation and its
fitness.  `usage.json` in the output folder holds the run's counters and its money, so that they outlive the store.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import redis

from orchestrator.output import OutputError, OutputFolder, OutputNotWritable, read_json
from tasks.store.keys import STANDING
from tasks.store.store import Store

NAME = "usage.json"
EVERY_S = 5.0  # a file that is synced to disk
TOKEN_COUNTS = ("target", "prompt", "cached", "completion")
MONEY = ("unconfirmed_usd", "budget_usd")  # beside the counters of the store

State = Literal["running", "finished", "parked", "stopped"]


@dataclass
class StatusPublisher:
    """Keeps both up to date; `publish` may be called as often as one likes."""

    run_id: str
    store: Store
    output: OutputFolder
    generations: int
    budget_usd: float
    standing: Mapping[str, float | int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._written: dict[str, float] = {}
        self._written_at = 0.0

    def restore(self, history: Sequence[Mapping[str, Any]]) -> None:
        """Where the store has lost its counters, count on from what the output folder says."""
        if self.store.usage(self.run_id):
            return
        counts = {k: v for k, v in read_usage(self.output).items() if k not in MONEY}
        if not counts:
            counts = {name: float(sum(g["tokens"][name] for g in history)) for name in TOKEN_COUNTS}
            counts["requests"] = float(sum(g["calls"] for g in history))
            counts["cost_usd"] = float(sum(g["cost_usd"] for g in history))
        self.store.add_usage(self.run_id, counts)

    def publish(self, standing: Mapping[str, float | int | None], state: State = "running") -> None:
        self.standing = dict(standing)
        told = {"state": state, "generations": self.generations, "budget_usd": self.budget_usd, **standing}
        self.store.put_metadata(self.run_id, STANDING, json.dumps({**told, "updated": round(time.time(), 3)}))
        if state != "running" or time.monotonic() - self._written_at > EVERY_S:
            self._write()

    @contextmanager
    def publish_final_state(self) -> Iterator[None]:
        """Tell how the run ended, however it does: finished, parked, or stopped by anything else."""
        from orchestrator.dispatch.evaluator import Parked

        state: State | None = "stopped"
        try:
            yield
            state = "finished"
        except (Parked, OutputNotWritable):
            state = "parked"
            raise
        except redis.RedisError:
            state = None  # the store is gone, and would only be waited for once more
            raise
        finally:
            if state is not None:
                with suppress(redis.RedisError, OutputNotWritable):
                    self.publish(self.standing, state)

    def _write(self) -> None:
        used = {
            **self.store.usage(self.run_id),
            "unconfirmed_usd": self.store.ledger(self.run_id).spending().unconfirmed,
        }
        used["budget_usd"] = self.budget_usd
        if used != self._written:
            self.output.write_json(NAME, used)
        self._written, self._written_at = used, time.monotonic()


def read_usage(output: OutputFolder) -> dict[str, float]:
    """What the run has used so far, as `usage.json` says; {} where there is none that can be read."""
    try:
        return read_json(output.path / NAME, dict[str, float])
    except (OSError, OutputError):
        return {}
