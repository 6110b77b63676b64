"""Asking the reflector once, and once more when what it said cannot be used.  Pure but for the `ask` it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from tasks.models import Reflector
from tasks.openai.client import OpenAIClient, Reply
from tasks.openai.errors import CallError, InvalidReplyError
from tasks.openai.schema import Schema

TRIES = 2
Kind = Literal["mutation", "merge", "descriptions"]


@dataclass(frozen=True)
class Invalid:
    """A reply that cannot be used, and why."""

    reason: str


@dataclass(frozen=True)
class CallRecord:
    """One call for the prompt log, whatever came of it (genetic_evolution_plan.md, section 8).

    `attempt` counts from 1.  `system` and `user` are the exact messages, `reply` the exact text ("" for none);
    `outcome` is "used", "invalid: ..." or "error: ..."; `by` is who wrote the reply, "" for none that fits its schema.
    """

    kind: Kind
    attempt: int
    system: str
    user: str
    reply: str
    outcome: str
    system_fingerprint: str = ""
    by: str = ""


class Ask(Protocol):
    """One call to the reflector. Raises: tasks.openai.errors.CallError."""

    def __call__(self, system: str, user: str, attempt: int) -> Reply: ...


Log = Callable[[CallRecord], None]
Used = TypeVar("Used")


def asker(client: OpenAIClient, reflector: Reflector, kind: Kind, schema: Schema, call_id: str) -> Ask:
    """An `Ask` over HTTP. The second attempt is a call of its own: another call id, the next seed."""

    def ask(system: str, user: str, attempt: int) -> Reply:
        return client.ask(
            system,
            user,
            model=reflector.model,
            schema_name=kind,
            schema=schema,
            temperature=reflector.temperature,
            top_p=reflector.top_p,
            max_completion_tokens=reflector.max_completion_tokens,
            # The same seed and the same messages would earn the same unusable reply.
            seed=reflector.seed + attempt - 1,
            call_id=call_id if attempt == 1 else f"{call_id}-{attempt}",
        )

    return ask


def ask_twice(
    ask: Ask, kind: Kind, messages: tuple[str, str], check: Callable[[object], Used | Invalid], log: Log
) -> Used | Invalid:
    """What `check` makes of the first usable reply, or the reason why the second was unusable too.

    Raises: CallError when a call fails, is refused or is cut: such calls are not made again here.
    """
    system, user = messages
    result: Used | Invalid = Invalid("never asked")
    for attempt in range(1, TRIES + 1):
        text = fingerprint = by = ""
        try:
            reply = ask(system, user, attempt)
            text, fingerprint, by = reply.text, reply.system_fingerprint, reply.by
            result = check(reply.data)
        except InvalidReplyError as error:
            text, result = error.raw, Invalid(str(error))
        except CallError as error:
            log(CallRecord(kind, attempt, system, user, error.raw, f"error: {type(error).__name__}: {error}"))
            raise
        if not isinstance(result, Invalid):
            log(CallRecord(kind, attempt, system, user, text, "used", fingerprint, by))
            return result
        log(CallRecord(kind, attempt, system, user, text, f"invalid: {result.reason}", fingerprint, by))
    return result
