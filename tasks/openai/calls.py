"""Calls of the openai queue, repeated with another seed when the reply is unusable."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from tasks.common.text import estimate_tokens, shorten, smallest_limit
from tasks.common.validation import LOGGED_CHARACTERS
from tasks.openai.client import Messages, OpenAIClient, R, Reply
from tasks.openai.endpoint import CallError, UnusableReplyError
from tasks.openai.limits import RunLimits
from tasks.records import Endpoint, Judge, Reflector, Run
from tasks.store.store import Store
from tasks.task import raise_if_cancelled

logger = logging.getLogger(__name__)
TRIES = 2
NEEDED_TRIES = 3  # of a call without whose reply the task fails


@dataclass(frozen=True)
class Invalid:
    """The reflector gave no reply that can be used, and why."""

    reason: str


def client_for(store: Store, run_id: str, endpoint: Endpoint) -> OpenAIClient:
    """A client whose limits and budget hold across all workers and whose usage is counted for the run."""
    raise_if_cancelled(store, run_id)
    return OpenAIClient(endpoint, RunLimits(store.redis, run_id, endpoint))


def prompt_limit(run: Run) -> int | None:
    """How many tokens the reflector's prompt may have beside the longest reply; None without a limit."""
    limit = smallest_limit(run.reflector_context_tokens, run.endpoint.tokens_per_minute)
    return max(0, limit - run.reflector.max_completion_tokens) if limit else None


def ask_reflector(
    store: Store,
    run: Run,
    messages: Messages,
    reply: type[R],
    call_id: str,
    file: str,
    fault: Callable[[R], str] = lambda _: "",
    settings: Reflector | None = None,
) -> R | Invalid:
    """The first usable reply of two, or why the second was unusable too; its caller can do without one.

    It is unusable when it was refused, filtered or truncated, is not of its model, or has a `fault`.  A prompt that is
    too long is not sent.  Each call is kept with the run under the name `file`.
    """

    def keep(attempt: int, outcome: str, text: str = "", fingerprint: str = "", provider: str = "") -> None:
        parts = zip(("system", "user", "reply"), (*messages, text), strict=True)
        lines = [
            f"# {reply.schema_name}, attempt {attempt}: {outcome}",
            f"# answered by: {provider or '(no answer)'}",
            f"# system_fingerprint: {fingerprint or '(none)'}",
            *(f"===== {name} =====\n{shorten(part, LOGGED_CHARACTERS)}" for name, part in parts),
        ]
        suffix = "" if attempt == 1 else f"_attempt{attempt}"
        store.put_prompt(run.id, f"{file}{suffix}.txt", "\n".join(lines) + "\n")
        if provider:
            store.add_providers(run.id, "reflector", [provider])

    client, limit = client_for(store, run.id, run.endpoint), prompt_limit(run)
    tokens = sum(map(estimate_tokens, messages))
    if limit is not None and tokens > limit:
        reason = f"the prompt has about {tokens:,} tokens, and {limit:,} are allowed; nothing was sent"
        keep(1, f"skipped: {reason}")
        return Invalid(reason)
    for attempt in range(1, TRIES + 1):
        try:
            found, written = client.ask(messages, reply, settings or run.reflector, call_id, attempt - 1)
        except UnusableReplyError as error:
            reason = str(error)
            keep(attempt, f"invalid: {reason}", error.raw)
            continue
        except CallError as error:
            keep(attempt, f"error: {type(error).__name__}: {error}", error.raw)
            raise
        reason = fault(found)
        outcome = f"invalid: {reason}" if reason else "used"
        keep(attempt, outcome, written.text, written.system_fingerprint, written.provider)
        if not reason:
            return found
    return Invalid(reason)


def ask_until_usable(
    client: OpenAIClient,
    messages: Messages,
    reply: type[R],
    settings: Reflector | Judge,
    call_id: str,
    store: Store | None = None,
    run_id: str = "",
) -> tuple[R, Reply]:
    """The first usable reply of `NEEDED_TRIES`; the store counts unusable ones, so that no seed is used twice."""
    what = f"reply:{call_id}"
    before = store.failure_count(run_id, what) if store else 0
    for tries in range(NEEDED_TRIES):
        try:
            return client.ask(messages, reply, settings, call_id, before + tries)
        except UnusableReplyError as error:
            if store:
                store.count_failure(run_id, what, 1)
            if tries + 1 == NEEDED_TRIES:
                raise
            logger.warning("unusable reply, asked again with another seed: %s", error)
    raise AssertionError("the last try returns or raises")
