"""How fast a target is: measured with a few real answers, or assumed.

The assumptions are those of docs/start.md, which names where each was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.estimate import CallSize, CallSizes, Rates
from orchestrator.run_parts import Length
from orchestrator.settings import Settings
from orchestrator.settings.run import by_rules, make_run
from tasks.judging.grader import needs_model
from tasks.judging.prompt import SCHEMA, system_message, user_message
from tasks.judging.rule import pure_number
from tasks.models import Example
from tasks.openai.fitting import SYSTEM_TOKENS, VERDICT_TOKENS, largest_prompt
from tasks.openai.provider import estimate_tokens

OVERHEAD_S = 1.0
"""Of a plan: what is sent, judged and scored while the target waits."""
CLUSTER_S = {"waste": 8.0, "meaning": 60.0}
HALVED = 0.5
SHORT = 0.7
"""The mean answer over the shipped system prompts, as a share of the plain prompt's."""


@dataclass(frozen=True)
class Assumed:
    """A target that nobody has measured; step_s: of a token of a single answer; share_of_cap: the mean answer, of the
    longest that is allowed.
    """

    tokens_a_second: float
    step_s: float
    prompt_s: float
    start_s: float
    share_of_cap: float


ON_GPU = Assumed(5_000.0, 0.01, 0.002, 120.0, 0.25)
ON_CPU = Assumed(400.0, 0.05, 0.1, 20.0, 0.5)
REPLY_TOKENS, REFLECTION_TOKENS = 150.0, 600.0
"""Of a verdict; of a reflection or a merge."""
OPEN_NUMBERS = 0.2
"""Of answers to questions with a number, those for which a model is asked: rules find right ones, and no answer is
judged twice."""
TOKEN_BYTES = 4
DESCRIPTION_TOKENS = 60  # of a cluster


@dataclass(frozen=True)
class Speed:
    """Measured answers: the tokens of each, [system prompt][question], the plain prompt first.

    start_s: until the server was ready; first_s and second_s: of all answers, with prompts new to the server and known;
    full_s: of `copies` of each at once.
    """

    start_s: float
    first_s: float
    second_s: float
    full_s: float
    copies: int
    tokens: tuple[tuple[int, ...], ...]


def measured_rates(speed: Speed, settings: Settings) -> Rates:
    """The rate of a full server, and apart from it the longest answers of a plan, which end in a server that empties.

    All answers of the second time are in flight at once, so the longest of them takes all of that time.
    """
    counts = [count for answers in speed.tokens for count in answers]
    mean, longest = sum(counts) / len(counts), max(1, *counts)
    step_s = speed.second_s / longest
    ending_s = step_s * (longest - mean)
    token_s = max((speed.full_s - ending_s) / max(1, speed.copies * sum(counts)), step_s / settings.target_concurrency)
    return Rates(
        start_s=speed.start_s,
        prompt_s=max(0.0, speed.first_s - speed.second_s) / len(counts),
        token_s=token_s,
        tokens=_lengths(sum(speed.tokens[0]) / len(speed.tokens[0]), mean),
        overhead_s=OVERHEAD_S + ending_s,
        clustering_s=CLUSTER_S[settings.clusters_by],
        source=f"measured on this machine: {1 / token_s:,.0f} tokens a second, answers of {mean:.0f} tokens",
    )


def assumed_rates(settings: Settings) -> Rates:
    assumed = ON_GPU if settings.target_engine == "sglang" else ON_CPU
    tokens = assumed.share_of_cap * settings.target_max_new_tokens
    return Rates(
        start_s=assumed.start_s,
        prompt_s=assumed.prompt_s,
        token_s=1 / assumed.tokens_a_second,
        tokens=_lengths(tokens, SHORT * tokens),
        overhead_s=OVERHEAD_S + assumed.step_s * (settings.target_max_new_tokens - tokens),
        clustering_s=CLUSTER_S[settings.clusters_by],
        source=f"assumed, not measured: {assumed.tokens_a_second:,.0f} tokens a second, answers of {tokens:.0f} tokens",
    )


def _lengths(plain: float, prompts: float) -> Mapping[Length, float]:
    """Mean tokens.  A search has halved the answers where it saved something, and elsewhere saved nothing."""
    return {"plain": plain, "prompts": prompts, "searched": (HALVED * plain + prompts) / 2}


def call_sizes(settings: Settings, examples: Sequence[Example], tokens: float) -> CallSizes:
    """The calls to a language model; `tokens`: of an answer, expected."""
    if by_rules(settings):
        return CallSizes()
    clusters = DESCRIPTION_TOKENS * settings.kmeans_clusters
    largest = largest_prompt(make_run(settings, ""), len(examples), clusters)
    longest = settings.reflector_max_completion_tokens
    read, reply = SYSTEM_TOKENS + clusters + len(examples) * (tokens + VERDICT_TOKENS), min(REFLECTION_TOKENS, longest)
    return CallSizes(
        verdict=_verdict_size(settings, examples, tokens) if needs_model(settings.judge) else None,
        reflection=CallSize(read, reply, largest, longest),
        merge=CallSize(SYSTEM_TOKENS, reply, largest, longest),
    )


def _verdict_size(settings: Settings, examples: Sequence[Example], tokens: float) -> CallSize:
    system = system_message(settings.judge_tolerance, settings.judge_forgiving)

    def prompt(answer_tokens: float) -> float:
        answer = "x" * int(TOKEN_BYTES * answer_tokens)
        asked = [estimate_tokens(system + str(SCHEMA) + user_message(e.question, e.gold, answer)) for e in examples]
        return sum(asked) / len(asked)

    numbers = sum(pure_number(example.gold) is not None for example in examples)
    return CallSize(
        prompt=prompt(tokens),
        reply=min(REPLY_TOKENS, settings.judge_max_completion_tokens),
        most_prompt=prompt(settings.target_max_new_tokens),
        most_reply=settings.judge_max_completion_tokens,
        share=1 - (1 - OPEN_NUMBERS) * numbers / len(examples),
    )
