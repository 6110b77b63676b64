"""Publishing where a run is while its driver works: in the store, and what it has used in the output folder too.

The store's metadata field `status` is for whatever watches the farm (metrics, Flower): the run's kind, its state and
its progress.  `usage.json` in the output folder holds the run's counters and its cost, so that they outlive the store.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import redis

from orchestrator.dispatch.dispatcher import Parked
from orchestrator.output import OutputFolder, OutputNotWritable
from orchestrator.runs.status import USAGE, State, read_usage
from tasks.store.keys import STATUS
from tasks.store.store import Store

WRITE_EVERY_S = 5.0  # a file that is synced to disk
TOKEN_COUNTS = ("target", "prompt", "cached", "completion")
COSTS = ("unconfirmed_usd", "budget_usd")  # beside the counters of the store

Progress = Mapping[str, float | int | None]


@dataclass
class StatusPublisher:
    """Keeps both up to date; `publish` may be called as often as one likes.

    `about` is published with every status: the kind of the run, and what does not change in a session.
    """

    run_id: str
    store: Store
    output: OutputFolder
    about: Mapping[str, Any]
    budget_usd: float
    progress: Progress = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._written: dict[str, float] = {}
        self._written_at = 0.0

    def restore(self, history: Sequence[Mapping[str, Any]]) -> None:
        """Where the store has lost its counters, count on from what the output folder says."""
        if self.store.usage(self.run_id):
            return
        counts = {k: v for k, v in read_usage(self.output).items() if k not in COSTS}
        if not counts and history:
            counts = {name: float(sum(g["tokens"][name] for g in history)) for name in TOKEN_COUNTS}
            counts["requests"] = float(sum(g["calls"] for g in history))
            counts["cost_usd"] = float(sum(g["cost_usd"] for g in history))
        self.store.add_usage(self.run_id, counts)

    def publish(self, progress: Progress, state: State = "running", usage: Mapping[str, float] | None = None) -> None:
        """`usage` is what the caller has just read of the store's counters, if it has."""
        self.progress = dict(progress)
        status = {**self.about, "state": state, "budget_usd": self.budget_usd, **progress}
        self.store.put_metadata(self.run_id, STATUS, json.dumps({**status, "updated": round(time.time(), 3)}))
        if state != "running" or time.monotonic() - self._written_at > WRITE_EVERY_S:
            self._write(self.store.usage(self.run_id) if usage is None else usage)

    @contextmanager
    def publish_final_state(self) -> Iterator[None]:
        """Publish how the run ended, whatever it raises: finished, parked, or stopped by anything else."""
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
                    self.publish(self.progress, state)

    def _write(self, usage: Mapping[str, float]) -> None:
        used = {**usage, "unconfirmed_usd": self.store.ledger(self.run_id).spending().unconfirmed}
        used["budget_usd"] = self.budget_usd
        if used != self._written:
            self.output.write_json(USAGE, used)
        self._written, self._written_at = used, time.monotonic()
