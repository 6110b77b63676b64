"""How long an evolution takes and what it costs, before it is started: expected, and at most.

The parts of a run (orchestrator/run_parts.py) say how many answers and calls there are.  Then

    seconds = answers * tokens / rate + prompts read for the first time * seconds each + plans * overhead
    dollars = calls * (prompt tokens * price + completion tokens * price)

Nothing is read or started here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.run_parts import Length, Part
from orchestrator.settings import Settings
from tasks.models import Endpoint

TOKENS_PER_PRICE = 1_000_000
MINUTE_S = 60.0


@dataclass(frozen=True)
class Rates:
    """How fast the target is and how long its answers are, with all requests in flight that the settings allow.

    start_s: until farm and server are ready; prompt_s: to read a prompt for the first time; token_s: for a generated
    token; tokens: of an answer, on average: "plain" to the plain prompt, "prompts" to all system prompts, "searched" of
    a search that starts from the best of them; overhead_s: of a plan; clustering_s.  `source` says where these come
    from.
    """

    start_s: float
    prompt_s: float
    token_s: float
    tokens: Mapping[Length, float]
    overhead_s: float
    clustering_s: float
    source: str


@dataclass(frozen=True)
class CallSize:
    """Calls of one kind: how many tokens the prompt and the reply have, expected and at most.

    share: of the occasions on which such a call is made, expected; at most it is all of them.
    """

    prompt: float
    reply: float
    most_prompt: float
    most_reply: float
    share: float = 1.0


@dataclass(frozen=True)
class CallSizes:
    """Of a verdict, of a reflection and of a merge; None where no language model is called."""

    verdict: CallSize | None = None
    reflection: CallSize | None = None
    merge: CallSize | None = None


@dataclass(frozen=True)
class Amount:
    """What a run takes.  `dollars` is None where the prices are not known."""

    seconds: float
    calls: float
    dollars: float | None


@dataclass(frozen=True)
class PartTime:
    """A part of the run, how many answers it takes, and its expected seconds."""

    name: str
    answers: int
    seconds: float


@dataclass(frozen=True)
class RunEstimate:
    """Evaluations, answers and tokens of the target are those of all parts.

    `most`: every answer and every reply has the longest length that the settings allow.
    """

    parts: tuple[PartTime, ...]
    evaluations: int
    answers: int
    tokens: float
    expected: Amount
    most: Amount


def estimate_run(
    parts: Sequence[Part], settings: Settings, rates: Rates, calls: CallSizes, endpoint: Endpoint
) -> RunEstimate:
    """The time and the cost of these parts."""
    cap = settings.target_max_new_tokens
    times = [PartTime("start", 0, rates.start_s)]
    most_s = rates.start_s + rates.clustering_s
    for part in parts:
        target_s = part.answers * rates.tokens[part.length] * rates.token_s + part.prompts * rates.prompt_s
        limit_s, most_limit_s = (_limit_s(part, calls, endpoint, most=most) for most in (False, True))
        overhead_s = part.plans * rates.overhead_s if part.answers else 0.0
        clustering_s = rates.clustering_s if part.name == "clusters" else 0.0
        times.append(PartTime(part.name, part.answers, max(target_s, limit_s) + overhead_s + clustering_s))
        most_s += part.answers * (cap * rates.token_s + rates.prompt_s) + most_limit_s + overhead_s
    seconds = sum(time.seconds for time in times)
    expected, most = (_spent(parts, calls, endpoint, most=most) for most in (False, True))
    return RunEstimate(
        parts=tuple(times),
        evaluations=sum(part.evaluations for part in parts),
        answers=sum(part.answers for part in parts),
        tokens=sum(part.answers * rates.tokens[part.length] for part in parts),
        expected=Amount(seconds, *expected),
        most=Amount(max(most_s, seconds), *most),
    )


def _made(part: Part, calls: CallSizes) -> list[tuple[float, CallSize]]:
    """How often each kind of call may be made in a part."""
    kinds = ((part.answers, calls.verdict), (part.reflections, calls.reflection), (part.merges, calls.merge))
    return [(count, size) for count, size in kinds if size is not None and count]


def _limit_s(part: Part, calls: CallSizes, endpoint: Endpoint, *, most: bool) -> float:
    """The time that the endpoint's limits for a minute allow; a call counts with the longest reply it may have."""
    requests = tokens = 0.0
    for count, size in _made(part, calls):
        made = count if most else count * size.share
        requests += made
        tokens += made * ((size.most_prompt if most else size.prompt) + size.most_reply)
    return MINUTE_S * max(requests / endpoint.requests_per_minute, tokens / endpoint.tokens_per_minute)


def _spent(parts: Sequence[Part], calls: CallSizes, endpoint: Endpoint, *, most: bool) -> tuple[float, float | None]:
    """Calls and dollars."""
    made, dollars = 0.0, 0.0
    prices = endpoint.price_prompt, endpoint.price_completion
    for part in parts:
        for count, size in _made(part, calls):
            times = count if most else count * size.share
            prompt, reply = (size.most_prompt, size.most_reply) if most else (size.prompt, size.reply)
            made += times
            dollars += times * (prompt * (prices[0] or 0) + reply * (prices[1] or 0)) / TOKENS_PER_PRICE
    return made, None if made and None in prices else dollars
