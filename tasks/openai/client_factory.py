"""What every task of the openai queue needs for its calls: client, limits, usage, budget, prompt log."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from tasks import context
from tasks.models import Endpoint
from tasks.openai.budget import RedisBudget
from tasks.openai.client import OpenAIClient
from tasks.openai.limits import RedisLimiter
from tasks.openai.structured_call import CallRecord
from tasks.secret import secret
from tasks.store.store import Store
from tasks.task import go_on


class HasEndpoint(Protocol):
    """Whoever calls: a run, or a part of it with an endpoint of its own."""

    @property
    def id(self) -> str: ...
    @property
    def endpoint(self) -> Endpoint: ...


@dataclass(frozen=True)
class Caller:
    """Who calls where; usage is counted for `id`."""

    id: str
    endpoint: Endpoint


def client_for(run: HasEndpoint, store: Store) -> OpenAIClient:
    """A client whose limits and budget hold across all workers and whose usage is counted for the run.

    Raises: Cancelled when the run was.
    """
    go_on(store, run.id)
    return OpenAIClient(run.endpoint, _limiter(run.endpoint), RedisBudget(store.ledger(run.id), run.endpoint))


def prompt_logger(store: Store, run_id: str, stem: str) -> Callable[[CallRecord], None]:
    """A log of the reflector's calls: the exact messages, a file a call (section 8), and who answered."""

    def log(call: CallRecord) -> None:
        suffix = "" if call.attempt == 1 else f"_attempt{call.attempt}"
        text = "\n".join(
            [
                f"# {call.kind}, attempt {call.attempt}: {call.outcome}",
                f"# answered by: {call.by or '(nobody)'}",
                f"# system_fingerprint: {call.system_fingerprint or '(none)'}",
                f"===== system =====\n{call.system}",
                f"===== user =====\n{call.user}",
                f"===== reply =====\n{call.reply}\n",
            ]
        )
        store.put_prompt(run_id, f"{stem}{suffix}.txt", text)
        if call.by:
            store.add_providers(run_id, "reflector", [call.by])

    return log


@lru_cache(maxsize=8)
def _limiter(endpoint: Endpoint) -> RedisLimiter:
    """One line for all who call the same address with the same key, whichever run they work for."""
    address = endpoint.base_url or os.environ.get("OPENAI_BASE_URL", "")
    key = secret(endpoint.api_key_env)
    name = context.content_hash(address, key)[:16]
    return RedisLimiter(context.store().redis, name, endpoint.requests_per_minute, endpoint.tokens_per_minute)
