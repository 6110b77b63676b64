"""Faults on request, for tests of how a run handles them: `SCHEMA:KIND:TIMES`, several separated by commas.

SCHEMA is the name of a schema that a rule answers, or `*`; TIMES is a count or `*`.  KIND is one of

    rate_limit[:SECONDS]  429 with Retry-After and retry-after-ms (1 second where none is given)
    quota                 429 insufficient_quota
    500                   HTTP 500
    context               400 context_length_exceeded
    refusal               a refusal in place of an answer
    truncated             the reply stops in the middle, finish_reason "length"
    invalid_json          the reply is complete but not JSON
    oversized             each text of the reply has 10 MB, whatever limit was asked for
    unchanged             the reflector proposes the current delta
    hang:SECONDS          no reply for so long, then the answer
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from workers.embedded.endpoint.chat import ChatRequest, bad_request, json_section, section

PLAIN_KINDS = frozenset({"quota", "500", "context", "refusal", "truncated", "invalid_json", "oversized", "unchanged"})
OVERSIZED = 10_000_000  # characters
TIMED_KINDS = {"rate_limit": 1.0, "hang": None}


@dataclass(frozen=True)
class Fault:
    """One kind of fault. `times` None is without limit; `seconds` only for the kinds that have them."""

    schema: str
    kind: str
    times: int | None
    seconds: float = 0.0


def parse_faults(spec: str, schemas: Collection[str]) -> list[Fault]:
    """The faults of `spec`, for calls of one of `schemas`; none for "".

    Raises: ValueError, naming the part that is wrong.
    """
    return [_parse_fault(part.strip(), schemas) for part in spec.split(",") if part.strip()]


class Faults:
    """Each fault as often as it was requested; the first that matches comes first."""

    def __init__(self, faults: list[Fault]) -> None:
        self._remaining: list[tuple[Fault, int | None]] = [(fault, fault.times) for fault in faults]

    def take(self, schema: str) -> Fault | None:
        """The fault for the next call of `schema`, or None."""
        for i, (fault, times) in enumerate(self._remaining):
            if fault.schema in ("*", schema) and times != 0:
                self._remaining[i] = (fault, None if times is None else times - 1)
                return fault
        return None


def _parse_fault(part: str, schemas: Collection[str]) -> Fault:
    fields = part.split(":")
    if len(fields) < 3 or not fields[0]:
        raise ValueError(f"{part!r} is not SCHEMA:KIND:TIMES")
    schema, kind, *given, times = fields
    if schema != "*" and schema not in schemas:
        raise ValueError(f"{part!r}: {schema!r} is no schema that is answered; there are {', '.join(sorted(schemas))}")
    count = None if times == "*" else _number(part, times)
    if count is not None and count != int(count):
        raise ValueError(f"{part!r}: {times!r} is not a count")
    whole = None if count is None else int(count)
    if kind in PLAIN_KINDS and not given:
        return Fault(schema, kind, whole)
    if kind in TIMED_KINDS and len(given) <= 1:
        seconds = _number(part, given[0]) if given else TIMED_KINDS[kind]
        if seconds is not None:
            return Fault(schema, kind, whole, seconds)
    raise ValueError(f"{part!r}: {':'.join([kind, *given])!r} is no kind of fault")


def _number(part: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:
        raise ValueError(f"{part!r}: {text!r} is not a number of at least 0")
    return value


@dataclass(frozen=True)
class ModelOutput:
    """What the reply gives as the model's output. With a `refusal` there is no text."""

    text: str
    finish_reason: str = "stop"
    refusal: str | None = None


def apply_fault(reply: dict[str, Any], request: ChatRequest, fault: Fault | None) -> ModelOutput:
    """`reply` with the fault, if any. Raises: ApiError 400 for "unchanged" in a request that is no mutation."""
    kind = fault.kind if fault else ""
    if kind == "refusal":
        return ModelOutput("", refusal="I'm sorry, I can't help with that (a requested fault).")
    if kind == "unchanged":
        reply = {**reply, "delta": _current_delta(request.user)}
    if kind == "oversized":
        reply = {name: "x" * OVERSIZED if isinstance(value, str) else value for name, value in reply.items()}
    text = json.dumps(reply, ensure_ascii=False)
    if kind == "truncated":
        return ModelOutput(text[: len(text) // 2], "length")
    if kind == "invalid_json":
        return ModelOutput(f"Here you are: {text[:-1]}")
    return ModelOutput(text)


def _current_delta(user: str) -> float:
    try:
        return float(json_section(user, "Current delta vector")[section(user, "Target cluster").strip()])
    except (ValueError, KeyError, TypeError) as error:
        raise bad_request(f"the fault 'unchanged' is for mutations: {error}") from error
