"""What all processes of the farm share about runs, in one Redis or Valkey; its keys are in tasks/store/keys.py."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, cast

import redis

from tasks.common.validation import parse_json
from tasks.plan import StageRef
from tasks.records import Example, JudgedAnswer, Run
from tasks.store import keys
from tasks.store.address import store_url
from tasks.store.client import NO_WAITING, Waiting, connect, waiting_of
from tasks.store.keys import result_key, run_key, test_uses_key
from tasks.store.plans import PlanRecords, read_run
from tasks.store.results import Clusterings, SharedResults
from tasks.store.retention import Retention

NOTIFICATIONS_KEPT_S = 3600
DELETED_AT_ONCE = 500  # keys in one command
# KEYS: the run's counters.  ARGV: names and values.
_RESTORE_USAGE = """
if redis.call("EXISTS", KEYS[1]) == 0 then redis.call("HSET", KEYS[1], unpack(ARGV)) end
"""


class Store(PlanRecords, SharedResults):
    """Typed access to all that runs share: what each was started with, its work, what it leaves, and shared results."""

    def of_owner(self, owner: str) -> Store:
        """The same store, for the process that holds the lease of a run (`Owner.to_json`)."""
        return Store(self.redis, owner)

    @cached_property
    def clusterings(self) -> Clusterings:
        return Clusterings(self.redis, self.owner)

    @cached_property
    def retention(self) -> Retention:
        return Retention(self.redis)

    # Runs.

    def put_run(self, run: Run) -> None:
        self._write(run.id, ("SADD", keys.RUNS, run.id), ("SET", run_key(run.id, keys.SETTINGS), run.to_json()))

    def run(self, run_id: str) -> Run:
        text = self.redis.get(run_key(run_id, keys.SETTINGS))
        if text is None:
            raise KeyError(f"no run {run_id!r} in the store")
        return read_run(cast(bytes, text))

    def judged(self, run_id: str, plan: str, index: int, examples: Sequence[Example]) -> tuple[JudgedAnswer, ...]:
        """A candidate's answers to these questions before a mutation, with their verdicts."""
        records = [self.stage(run_id, plan, StageRef(index, stage, "pre").field) or {} for stage in ("answer", "judge")]
        answers, verdicts = records[0]["answers"], records[1]["verdicts"]
        texts = self.shared(run_id, [answer["key"] for answer in answers])
        reasons = self.shared(run_id, [verdict["key"] for verdict in verdicts])
        return tuple(
            JudgedAnswer(
                example=example.id,
                tokens=answer["tokens"],
                is_right=verdict["is_correct"],
                text=texts[answer["key"]]["text"],
                question=example.question,
                gold=example.gold,
                reasoning=reasons[verdict["key"]]["reasoning"],
                is_whole=answer["whole"],
                is_loop=answer["loop"],
            )
            for example, answer, verdict in zip(examples, answers, verdicts, strict=True)
        )

    def has_run(self, run_id: str) -> bool:
        """Whether there is such a run, of any kind."""
        return bool(self.redis.exists(run_key(run_id, keys.SETTINGS), run_key(run_id, keys.METADATA)))

    def put_metadata(self, run_id: str, name: str, value: str) -> None:
        self._write(run_id, ("HSET", run_key(run_id, keys.METADATA), name, value))

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

    def delete_run(self, run_id: str) -> int:
        """Delete a run, and the shared results that no other run has used.  Returns the number of keys removed."""
        self.release_shared(run_id)
        self.clusterings.release(run_id)
        others = [run_key(other, keys.SHARED) for other in self.run_ids() if other != run_id]
        shared = cast("set[bytes]", self.redis.sdiff([run_key(run_id, keys.SHARED), *others]))
        lease = run_key(run_id, keys.LEASE).encode()
        found = [*shared, *(key for key in self.keys_of(run_id) if key != lease)]
        for start in range(0, len(found), DELETED_AT_ONCE):
            self._write(run_id, ("UNLINK", *found[start : start + DELETED_AT_ONCE]))
        self._write(run_id, ("SREM", keys.RUNS, run_id), ("UNLINK", lease))
        return len(found)

    # What a run leaves for its output folder.

    def put_prompt(self, run_id: str, name: str, text: str) -> None:
        self.redis.hset(run_key(run_id, keys.PROMPTS), name, text)

    def prompts(self, run_id: str, cached: Iterable[str] = ()) -> dict[str, str]:
        """The texts of the run's calls by file name, without those that the caller has (`cached`)."""
        found = self._hash_without(run_key(run_id, keys.PROMPTS), set(cached))
        return {name: text.decode() for name, text in found.items()}

    def put_file(self, run_id: str, name: str, data: bytes) -> None:
        """Data of a job by its name, or what a job has made by the job's key."""
        self._write(run_id, ("HSET", run_key(run_id, keys.FILES), name, data))

    def file(self, run_id: str, name: str) -> bytes | None:
        return cast("bytes | None", self.redis.hget(run_key(run_id, keys.FILES), name))

    def forget_file(self, run_id: str, key: str) -> None:
        """Delete what a job has made, and its result: when it is requested again, it is made again."""
        self._write(
            run_id,
            ("HDEL", run_key(run_id, keys.FILES), key),
            ("UNLINK", result_key(key)),
            ("SREM", run_key(run_id, keys.HELD), result_key(key)),
            ("SREM", run_key(run_id, keys.SHARED), result_key(key)),
        )

    def usage(self, run_id: str) -> dict[str, float]:
        found = cast("dict[bytes, bytes]", self.redis.hgetall(run_key(run_id, keys.USAGE)))
        return {name.decode(): float(value) for name, value in found.items()}

    def restore_usage(self, run_id: str, counts: Mapping[str, float]) -> None:
        """Where the run has no counters, begin with these: after the store has lost them."""
        if parts := [part for name, value in counts.items() for part in (name, repr(float(value)))]:
            self._run_script(_RESTORE_USAGE, run_id, [run_key(run_id, keys.USAGE)], parts)

    def add_providers(self, run_id: str, role: str, names: Iterable[str]) -> None:
        """Note who answered for the run in the role of "reflector" or "judge"."""
        if members := [json.dumps([role, name]) for name in names]:
            self._write(run_id, ("SADD", run_key(run_id, keys.PROVIDERS), *members))

    def providers(self, run_id: str, role: str) -> list[str]:
        """Who has answered for the run in this role, in alphabetical order."""
        found = cast("set[bytes]", self.redis.smembers(run_key(run_id, keys.PROVIDERS)))
        return sorted(name for of, name in map(json.loads, found) if of == role)

    def add_server(self, run_id: str, identity: Mapping[str, Any]) -> None:
        """Note which target server answers for the run."""
        self.redis.sadd(run_key(run_id, keys.SERVERS), json.dumps(identity, sort_keys=True))

    def forget_servers(self, run_id: str) -> None:
        self._write(run_id, ("DEL", run_key(run_id, keys.SERVERS)))

    def servers(self, run_id: str) -> list[dict[str, Any]]:
        """The identities of the target servers that have answered for the run."""
        found = cast("set[bytes]", self.redis.smembers(run_key(run_id, keys.SERVERS)))
        return [json.loads(text) for text in sorted(found)]


def record_use(client: redis.Redis, questions: Sequence[str], use: str) -> int:
    """Record that test questions (content hashes) are used; how many uses there were of any of them, with this one.

    Those that have measured a choice before are no longer unseen.
    """
    found = [test_uses_key(question) for question in questions]
    with client.pipeline() as pipeline:
        for key in found:
            pipeline.sadd(key, use)
        pipeline.sunion(found)
        return len(pipeline.execute()[-1])


def open_store(redis_url: str, waiting: Waiting | None = None) -> Store:
    """The store of the farm at this address; while the server's memory is full, what waits removes unheld results."""
    client = connect(store_url(redis_url), waiting)
    waiting_of(client).make_room = Retention(connect(store_url(redis_url), NO_WAITING)).make_room
    return Store(client)


# Every evaluation reads its questions; with the same string objects, whatever caches by text compares them by identity.
@lru_cache(maxsize=4)
def _read_examples(text: bytes) -> Mapping[str, tuple[Example, ...]]:
    return parse_json(dict[str, tuple[Example, ...]], text)
