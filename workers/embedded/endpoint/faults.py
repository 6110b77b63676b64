"""Failing on request, so that a run can be rehearsed: `SCHEMA:KIND:TIMES`, several separated by commas.

SCHEMA is the name of a schema that a rule answers, or `*`; TIMES is a count or `*`.  KIND is one of

    rate_limit[:SECONDS]  429 with Retry-After and retry-after-ms (1 second where none is given)
    quota                 429 insufficient_quota
    500                   HTTP 500
    refusal               the model declines
    truncated             the reply stops in the middle, finish_reason "length"
    invalid_json          the reply is whole but no JSON
    unchanged             the reflector proposes the current delta
    hang:SECONDS          nothing for so long, then the answer

Replies that are not what was asked for: the faults that come with HTTP 200. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from workers.embedded.endpoint.chat import ChatRequest, bad_request
from workers.embedded.endpoint.prompt_parser import body, json_body

PLAIN_KINDS = frozenset({"quota", "500", "refusal", "truncated", "invalid_json", "unchanged"})
TIMED_KINDS = {"rate_limit": 1.0, "hang": None}


@dataclass(frozen=True)
class Fault:
    """One kind of failure. `times` None is for ever; `seconds` only for the kinds that take them."""

    schema: str
    kind: str
    times: int | None
    seconds: float = 0.0


def parse_faults(spec: str, schemas: Collection[str]) -> list[Fault]:
    """The faults that `spec` names, of calls for one of `schemas`; none for "".

    Raises: ValueError, naming the part that is wrong.
    """
    return [_parse_fault(part.strip(), schemas) for part in spec.split(",") if part.strip()]


class Faults:
    """Hands out each fault as often as it was asked for, the first that fits first."""

    def __init__(self, faults: list[Fault]) -> None:
        self._left: list[tuple[Fault, int | None]] = [(fault, fault.times) for fault in faults]

    def take(self, schema: str) -> Fault | None:
        """The fault that the next call for `schema` is to have."""
        for i, (fault, left) in enumerate(self._left):
            if fault.schema in ("*", schema) and left != 0:
                self._left[i] = (fault, None if left is None else left - 1)
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
class Written:
    """What the model is to have written. With a `refusal`, nothing."""

    text: str
    finish_reason: str = "stop"
    refusal: str | None = None


def spoil(reply: dict[str, Any], asked: ChatRequest, fault: Fault | None) -> Written:
    """`reply` as `fault` leaves it. Raises: ApiError 400 for "unchanged" where no delta was asked for."""
    kind = fault.kind if fault else ""
    if kind == "refusal":
        return Written("", refusal="I'm sorry, I can't help with that, as I was told.")
    if kind == "unchanged":
        reply = {**reply, "delta": _current_delta(asked.user)}
    text = json.dumps(reply, ensure_ascii=False)
    if kind == "truncated":
        return Written(text[: len(text) // 2], "length")
    if kind == "invalid_json":
        return Written(f"Here you are: {text[:-1]}")
    return Written(text)


def _current_delta(user: str) -> float:
    try:
        return float(json_body(user, "Current delta vector")[body(user, "Target cluster").strip()])
    except (ValueError, KeyError, TypeError) as error:
        raise bad_request(f"the fault 'unchanged' is for mutations: {error}") from error
