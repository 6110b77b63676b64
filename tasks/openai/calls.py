"""Calls of the openai queue, repeated with another seed when the reply is unusable."""

from __future__ import annotations

import logging

from tasks.common.text import estimate_tokens, shorten, smallest_limit
from tasks.common.validation import LOGGED_CHARACTERS
from tasks.openai.client import Messages, OpenAIClient, R
from tasks.openai.endpoint import CallError, UnusableReplyError
from tasks.openai.limits import RunLimits
from tasks.openai.reply import Reply
from tasks.records import Endpoint, Judge, Reflector, Run
from tasks.stage import Stage
from tasks.store.store import Store
from tasks.task import raise_if_cancelled

logger = logging.getLogger(__name__)
TRIES = 2
NEEDED_TRIES = 3  # of a call without whose reply the task fails


def client_for(store: Store, run_id: str, endpoint: Endpoint) -> OpenAIClient:
    """A client whose limits and budget hold across all workers and whose usage is counted for the run."""
    raise_if_cancelled(store, run_id)
    return OpenAIClient(endpoint, RunLimits(store.redis, run_id, endpoint))


def prompt_limit(run: Run) -> int | None:
    """How many tokens the reflector's prompt may have beside the longest reply; None without a limit."""
    limit = smallest_limit(run.reflector_context_tokens, run.endpoint.tokens_per_minute)
    return max(0, limit - run.reflector.max_completion_tokens) if limit else None


def ask_reflector(
    stage: Stage, messages: Messages, reply: type[R], suffix: str = "", settings: Reflector | None = None
) -> R:
    """The first usable reply of two; a prompt that is too long is not sent.

    Each try is kept with the run; `suffix` tells the calls of one stage apart.
    """
    store, run, kind = stage.store, stage.run, reply.schema_name
    call_id = "-".join(filter(None, (run.id, stage.node, kind, suffix)))

    def keep(attempt: int, outcome: str, text: str = "", fingerprint: str = "", provider: str = "") -> None:
        parts = zip(("system", "user", "reply"), (*messages, text), strict=True)
        lines = [
            f"# {kind}, attempt {attempt}: {outcome}",
            f"# answered by: {provider or '(no answer)'}",
            f"# system_fingerprint: {fingerprint or '(none)'}",
            *(f"===== {name} =====\n{shorten(part, LOGGED_CHARACTERS)}" for name, part in parts),
        ]
        place = f"gen_{stage.plan.generation}", kind, stage.node, suffix, f"attempt{attempt}" if attempt > 1 else ""
        store.put_prompt(run.id, "_".join(filter(None, place)) + ".txt", "\n".join(lines) + "\n")
        if provider:
            store.add_providers(run.id, "reflector", [provider])

    client, limit = client_for(store, run.id, run.endpoint), prompt_limit(run)
    tokens = sum(map(estimate_tokens, messages))
    if limit is not None and tokens > limit:
        reason = f"the prompt has about {tokens:,} tokens, and {limit:,} are allowed; nothing was sent"
        keep(1, f"skipped: {reason}")
        raise UnusableReplyError(reason)
    for attempt in range(1, TRIES + 1):
        try:
            found, written = client.ask(messages, reply, settings or run.reflector, call_id, attempt - 1)
        except UnusableReplyError as error:
            last = error
            keep(attempt, f"invalid: {error}", error.raw, error.system_fingerprint, error.provider)
        except CallError as error:
            keep(attempt, f"error: {type(error).__name__}: {error}")
            raise
        else:
            keep(attempt, "used", written.text, written.system_fingerprint, written.provider)
            return found
    raise last


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
    for tries in range(before, before + NEEDED_TRIES):
        try:
            return client.ask(messages, reply, settings, call_id, tries)
        except UnusableReplyError as error:
            if store:
                store.count_failure(run_id, what, 1)
            logger.warning("unusable reply: %s", error)
            last = error
    raise last
