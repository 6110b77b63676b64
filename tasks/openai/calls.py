"""Calls of the openai queue: a request with a strict schema, repeated with another seed when the reply is unusable.

`client_for` gives a task its client, whose limits and budget hold across all workers.  The reflector is asked through
`make_ask` and `ask_with_retry`, whose caller can do without a reply; `prompt_logger` keeps each call with the run.
`repeat_unusable` is for callers that need a reply: the judge, and the compression of an answer.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeVar

from tasks.common.logs import secret
from tasks.common.text import PromptTooLong, estimate_tokens, shorten
from tasks.common.validation import LOGGED_CHARACTERS
from tasks.openai.budget import RedisBudget
from tasks.openai.client import OpenAIClient, Reply
from tasks.openai.endpoint import CallError, UnusableReplyError
from tasks.openai.limits import RedisLimiter
from tasks.openai.schema import Schema
from tasks.records import Endpoint, Reflector
from tasks.store.keys import content_hash
from tasks.store.store import Store
from tasks.task import current_store, raise_if_cancelled

logger = logging.getLogger(__name__)
TRIES = 2
NEEDED_TRIES = 3  # of a call without whose reply the task fails
Kind = Literal["mutation", "rewrite", "merge", "descriptions"]


@dataclass(frozen=True)
class Invalid:
    """A reply that cannot be used, and why."""

    reason: str


@dataclass(frozen=True)
class CallRecord:
    """One call for the prompt log.

    `attempt` counts from 1.  `system` and `user` are the exact messages, `reply` the exact text ("" for none);
    `outcome` is "used", "invalid: ...", "skipped: ..." or "error: ..."; `provider` is who wrote the reply, "" without
    one.
    """

    kind: Kind
    attempt: int
    system: str
    user: str
    reply: str
    outcome: str
    system_fingerprint: str = ""
    provider: str = ""


Ask = Callable[[str, str, int], Reply]  # of system, user and attempt
Log = Callable[[CallRecord], None]
Used = TypeVar("Used")


def make_ask(
    client: OpenAIClient, reflector: Reflector, kind: Kind, schema: Schema, call_id: str, limit: int | None = None
) -> Ask:
    """An `Ask` over HTTP. The second attempt is another call, with its own id and the next seed.

    A prompt of more than `limit` tokens is not sent: the call would fail.
    """

    def ask(system: str, user: str, attempt: int) -> Reply:
        check_length(system, user, limit)
        return client.ask(
            system,
            user,
            model=reflector.model,
            schema_name=kind,
            schema=schema,
            temperature=reflector.temperature,
            top_p=reflector.top_p,
            max_completion_tokens=reflector.max_completion_tokens,
            # The same seed and messages would give the same unusable reply.
            seed=raised_seed(reflector.seed, attempt - 1),
            call_id=repeated_call_id(call_id, attempt - 1),
        )

    return ask


def check_length(system: str, user: str, limit: int | None) -> None:
    tokens = estimate_tokens(system) + estimate_tokens(user)
    if limit is not None and tokens > limit:
        raise PromptTooLong(f"the prompt has about {tokens:,} tokens, and {limit:,} are allowed; nothing was sent")


def ask_with_retry(
    ask: Ask, kind: Kind, messages: tuple[str, str], check: Callable[[Mapping[str, Any]], Used | Invalid], log: Log
) -> Used | Invalid:
    """What `check` makes of the first usable reply, or why the second was unusable too.

    A reply that was refused, filtered or truncated is unusable as well; a prompt that is too long is not sent.
    """
    system, user = messages
    result: Used | Invalid = Invalid("never asked")
    for attempt in range(1, TRIES + 1):
        text = fingerprint = provider = ""
        try:
            reply = ask(system, user, attempt)
            text, fingerprint, provider = reply.text, reply.system_fingerprint, reply.provider
            result = check(reply.data)
        except UnusableReplyError as error:
            text, result = error.raw or text, Invalid(str(error))
        except PromptTooLong as error:
            log(CallRecord(kind, attempt, system, user, "", f"skipped: {error}"))
            return Invalid(str(error))
        except CallError as error:
            log(CallRecord(kind, attempt, system, user, error.raw, f"error: {type(error).__name__}: {error}"))
            raise
        if not isinstance(result, Invalid):
            log(CallRecord(kind, attempt, system, user, text, "used", fingerprint, provider))
            return result
        log(CallRecord(kind, attempt, system, user, text, f"invalid: {result.reason}", fingerprint, provider))
    return result


@dataclass
class ReplyCounter:
    """How many unusable replies a call has had, in one process."""

    count: int = 0

    def read(self) -> int:
        return self.count

    def increment(self) -> None:
        self.count += 1


class StoredReplyCounter(ReplyCounter):
    """The same, kept with the run, so that a retried task uses seeds that were not used before."""

    def __init__(self, store: Store, run_id: str, call_id: str) -> None:
        self._store, self._run_id, self._what = store, run_id, f"reply:{call_id}"

    def read(self) -> int:
        return self._store.failure_count(self._run_id, self._what)

    def increment(self) -> None:
        self._store.count_failure(self._run_id, self._what, 1)


def repeat_unusable(
    call: Callable[[], Used], counter: ReplyCounter, unusable: tuple[type[Exception], ...] = ()
) -> Used:
    """`call()` until its reply can be used, `NEEDED_TRIES` times at most; each adds the count to its seed."""
    repeated: tuple[type[Exception], ...] = (UnusableReplyError, *unusable)
    for remaining in reversed(range(NEEDED_TRIES)):
        try:
            return call()
        except repeated as error:
            counter.increment()
            if not remaining:
                raise
            logger.warning("unusable reply, asked again with another seed: %s", error)
    raise AssertionError("the last try returns or raises")


def raised_seed(seed: int | None, offset: int) -> int | None:
    """The seed of a repeated call; None when no seed is sent."""
    return None if seed is None else seed + offset


def repeated_call_id(call_id: str, offset: int) -> str:
    """The id of a call that is repeated with its seed raised by `offset`: another call, also to the endpoint."""
    return f"{call_id}-{offset + 1}" if offset else call_id


def client_for(store: Store, run_id: str, endpoint: Endpoint) -> OpenAIClient:
    """A client whose limits and budget hold across all workers and whose usage is counted for the run."""
    raise_if_cancelled(store, run_id)
    return OpenAIClient(endpoint, _limiter(endpoint), RedisBudget(store.ledger(run_id), endpoint))


def prompt_logger(store: Store, run_id: str, stem: str) -> Callable[[CallRecord], None]:
    """A log of the reflector's calls: a file for each call, with the exact messages and who answered."""

    def log(call: CallRecord) -> None:
        suffix = "" if call.attempt == 1 else f"_attempt{call.attempt}"
        text = "\n".join(
            [
                f"# {call.kind}, attempt {call.attempt}: {call.outcome}",
                f"# answered by: {call.provider or '(no answer)'}",
                f"# system_fingerprint: {call.system_fingerprint or '(none)'}",
                f"===== system =====\n{shorten(call.system, LOGGED_CHARACTERS)}",
                f"===== user =====\n{shorten(call.user, LOGGED_CHARACTERS)}",
                f"===== reply =====\n{shorten(call.reply, LOGGED_CHARACTERS)}\n",
            ]
        )
        store.put_prompt(run_id, f"{stem}{suffix}.txt", text)
        if call.provider:
            store.add_providers(run_id, "reflector", [call.provider])

    return log


@lru_cache(maxsize=8)
def _limiter(endpoint: Endpoint) -> RedisLimiter:
    """One limiter for all calls to the same address with the same key, of whatever run."""
    address = endpoint.base_url or os.environ.get("OPENAI_BASE_URL", "")
    key = secret(endpoint.api_key_env)
    name = content_hash(address, key)[:16]
    return RedisLimiter(current_store().redis, name, endpoint.requests_per_minute, endpoint.tokens_per_minute)
