"""The part of the store that knows runs: what each was started with, what was learnt of it, and its questions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import cast

import redis

from tasks.keys import CANCELLED, CODE, LIMIT, MODEL, run_key, text_of
from tasks.run import Run


class RunRecords:
    """See `tasks.store.Store`."""

    def __init__(self, client: redis.Redis) -> None:
        self.redis = client

    def put_run(self, run: Run) -> None:
        self.redis.set(run_key(run.id, "settings"), run.to_json())

    def run(self, run_id: str) -> Run:
        """Raises: KeyError when the store does not know the run."""
        text = self.redis.get(run_key(run_id, "settings"))
        if text is None:
            raise KeyError(f"no run {run_id!r} in the store")
        return Run.from_json(cast(bytes, text).decode())

    def knows(self, run_id: str) -> bool:
        """Whether there is such a run or, of Phase 0, such a collection."""
        return bool(self.redis.exists(run_key(run_id, "settings"), run_key(run_id, "facts")))

    def run_ids(self) -> list[str]:
        found = self.redis.scan_iter(match=run_key("*", "settings"), count=1000)
        return sorted(key.decode().split(":")[2] for key in found)

    def put_fact(self, run_id: str, name: str, value: str) -> None:
        self.redis.hset(run_key(run_id, "facts"), name, value)

    def fact(self, run_id: str, name: str) -> str | None:
        return text_of(self.redis.hget(run_key(run_id, "facts"), name))

    def facts(self, run_id: str, names: Sequence[str]) -> dict[str, str | None]:
        values = cast("list[bytes | None]", self.redis.hmget(run_key(run_id, "facts"), list(names)))
        return {name: text_of(value) for name, value in zip(names, values, strict=True)}

    def welcome(self, run_id: str, code: str, model: str) -> None:
        """Say which workers may work for a run: those of this code, for this model.  A cancelled one goes on."""
        pipe = self.redis.pipeline()
        pipe.hset(run_key(run_id, "facts"), mapping={CODE: code, MODEL: model})
        pipe.hdel(run_key(run_id, "facts"), CANCELLED)
        pipe.execute()

    def stage_limit(self, run_id: str) -> float | None:
        """How long a stage of the run may take, in seconds; None where nobody has said."""
        text = self.fact(run_id, LIMIT)
        return None if text is None else float(text)

    def put_examples(self, run_id: str, examples: Mapping[str, Sequence[Mapping[str, str]]]) -> None:
        self.redis.set(run_key(run_id, "examples"), json.dumps(examples))

    def examples(self, run_id: str) -> dict[str, list[dict[str, str]]]:
        text = self.redis.get(run_key(run_id, "examples"))
        if text is None:
            raise KeyError(f"no examples of run {run_id!r} in the store")
        return examples_from(cast(bytes, text))


# Every stage asks for its run, and the many stages of a run for the same: checking its fields takes longest.
@lru_cache(maxsize=8)
def run_from(text: bytes) -> Run:
    """A run as it lies in the store."""
    return Run.from_json(text.decode())


# Every evaluation asks for its questions, and the same strings again are known by their hashes to all that caches them.
@lru_cache(maxsize=4)
def examples_from(text: bytes) -> dict[str, list[dict[str, str]]]:
    """The sets of examples as they lie in the store; to be read only."""
    return cast("dict[str, list[dict[str, str]]]", json.loads(text))
