"""Runs in the store: what each was started with, what was learnt of it, and how its driver is woken."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import cast

from tasks.models import Example, Run
from tasks.store import keys
from tasks.store.access import StoreAccess, text_of
from tasks.store.keys import run_key
from tasks.validation import parse_json

NOTIFICATIONS_KEPT_S = 3600


class RunRecords(StoreAccess):
    """The records of runs, by run id."""

    def put_run(self, run: Run) -> None:
        self._write(run.id, ("SADD", keys.RUNS, run.id), ("SET", run_key(run.id, keys.SETTINGS), run.to_json()))

    def run(self, run_id: str) -> Run:
        text = self.redis.get(run_key(run_id, keys.SETTINGS))
        if text is None:
            raise KeyError(f"no run {run_id!r} in the store")
        return read_run(cast(bytes, text))

    def has_run(self, run_id: str) -> bool:
        """Whether there is such a run, of any kind."""
        return bool(self.redis.exists(run_key(run_id, keys.SETTINGS), run_key(run_id, keys.METADATA)))

    def run_ids(self) -> list[str]:
        """All runs, of every kind."""
        return sorted(run.decode() for run in cast("set[bytes]", self.redis.smembers(keys.RUNS)))

    def put_metadata(self, run_id: str, name: str, value: str) -> None:
        self._write(run_id, ("HSET", run_key(run_id, keys.METADATA), name, value))

    def metadata(self, run_id: str, name: str) -> str | None:
        return text_of(self.redis.hget(run_key(run_id, keys.METADATA), name))

    def metadata_values(self, run_id: str, names: Sequence[str]) -> dict[str, str | None]:
        values = cast("list[bytes | None]", self.redis.hmget(run_key(run_id, keys.METADATA), list(names)))
        return {name: text_of(value) for name, value in zip(names, values, strict=True)}

    def set_requirements(self, run_id: str, code: str, model: str) -> None:
        """Which workers may work for a run: those of this code, for this model.  A cancelled run goes on."""
        metadata = run_key(run_id, keys.METADATA)
        self._write(
            run_id,
            ("SADD", keys.RUNS, run_id),
            ("HSET", metadata, keys.CODE, code, keys.MODEL, model),
            ("HDEL", metadata, keys.CANCELLED),
        )

    def stage_limit(self, run_id: str) -> float | None:
        """How long a stage of the run may take, in seconds; None where no limit was set."""
        text = self.metadata(run_id, keys.LIMIT)
        return None if text is None else float(text)

    def put_examples(self, run_id: str, examples: Mapping[str, Sequence[Example]]) -> None:
        sets = {name: [dataclasses.asdict(example) for example in found] for name, found in examples.items()}
        self._write(run_id, ("SET", run_key(run_id, keys.EXAMPLES), json.dumps(sets)))

    def examples(self, run_id: str) -> Mapping[str, tuple[Example, ...]]:
        """The sets of examples by name."""
        text = self.redis.get(run_key(run_id, keys.EXAMPLES))
        if text is None:
            raise KeyError(f"no examples of run {run_id!r} in the store")
        return _read_examples(cast(bytes, text))

    def notify(self, run_id: str) -> None:
        """End the `wait` of the process that drives the run: a result or failure was recorded."""
        key = run_key(run_id, keys.NOTIFICATIONS)
        self.redis.lpush(key, "1")
        self.redis.expire(key, NOTIFICATIONS_KEPT_S)

    def wait(self, run_id: str, seconds: float) -> None:
        """Sleep until `notify`, but no longer than `seconds`."""
        key = run_key(run_id, keys.NOTIFICATIONS)
        self.redis.blpop([key], timeout=seconds)
        self._write(run_id, ("DEL", key))


# Every stage reads its run, and the many stages of a run the same one: checking its fields takes longest.
@lru_cache(maxsize=8)
def read_run(text: bytes) -> Run:
    return parse_json(Run, text)


# Every evaluation reads its questions; with the same string objects, whatever caches by text compares them by identity.
@lru_cache(maxsize=4)
def _read_examples(text: bytes) -> Mapping[str, tuple[Example, ...]]:
    return parse_json(dict[str, tuple[Example, ...]], text)
