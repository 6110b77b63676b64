"""Fit the answers of the training set into the reflector's prompt.

A prompt and its reply must fit the model's context and the endpoint's tokens a minute.  If they do not, texts are cut
in the middle, the longest and the wrong answers first: no answer and no explanation keeps more than `cap` characters, a
wrong answer no more than half of it, and `cap` is the largest with which the prompt fits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.common.text import SHORTEST, cut_middle, largest_length, smallest_limit
from tasks.common.validation import SCRATCHPAD_CHARACTERS
from tasks.records import Run

VERDICT_TOKENS = 150  # about what an answer's explanation, id and field names take
SYSTEM_TOKENS = 800  # about what the messages take without answers, descriptions and scratchpad


@dataclass(frozen=True)
class Response:
    """One answer of the training set, judged. `tokens` without the end-of-turn token."""

    example_id: str
    is_correct: bool
    explanation: str
    text: str
    tokens: int


def response_record(response: Response) -> dict[str, Any]:
    """A response as the reflector's prompts have it."""
    return {
        "example_id": response.example_id,
        "correct": "yes" if response.is_correct else "no",
        "explanation": response.explanation,
        "tokens": response.tokens,
        "answer": response.text,
    }


def prompt_limit(run: Run) -> int | None:
    """How many tokens the reflector's prompt may have; None without a limit.

    The limits are on prompt and reply together, so the longest reply is taken off.
    """
    limit = smallest_limit(run.reflector_context_tokens, run.endpoint.tokens_per_minute)
    return max(0, limit - run.reflector.max_completion_tokens) if limit else None


def largest_prompt(run: Run, answers: int, description_tokens: int) -> int:
    """About how many tokens the reflector's prompt has at most: every answer is as long as the target may make it."""
    longest = run.target.sampling.max_new_tokens + VERDICT_TOKENS
    return SYSTEM_TOKENS + description_tokens + SCRATCHPAD_CHARACTERS // 4 + answers * longest


def prompt_estimate(run: Run, answers: int, description_tokens: int) -> str:
    """One line on the length of the reflector's prompts, before the first of them is written."""
    largest, limit = largest_prompt(run, answers, description_tokens), prompt_limit(run)
    line = f"a prompt of the reflector has up to about {largest:,} tokens"
    if limit is None or largest <= limit:
        return line
    options = "CONFIG_OPENAI_CONTEXT_TOKENS, CONFIG_OPENAI_TOKENS_PER_MINUTE"
    return f"{line}; {limit:,} are allowed ({options}): the longest and the wrong answers are cut in the middle"


def fit_responses(
    responses: Sequence[Response], limit: int | None, tokens_of: Callable[[Sequence[Response]], int]
) -> tuple[list[Response], int]:
    """The responses as they enter the prompt, and how many of them are cut.

    `tokens_of(responses)` estimates the prompt with these responses.  One that is too long even with `SHORTEST`
    characters of each text is returned like that: it is not sent (`calls.make_ask`).
    """
    responses = list(responses)
    if limit is None or tokens_of(responses) <= limit:
        return responses, 0
    cap = largest_length(
        max(max(2 * len(r.text), len(r.explanation)) for r in responses),
        lambda cap: tokens_of([_cut(r, cap) for r in responses]) <= limit,
    )
    fitted = [_cut(response, cap) for response in responses]
    return fitted, sum(one != before for one, before in zip(fitted, responses, strict=True))


def _cut(response: Response, cap: int) -> Response:
    longest = cap if response.is_correct else max(SHORTEST, cap // 2)
    return dataclasses.replace(
        response, text=cut_middle(response.text, longest), explanation=cut_middle(response.explanation, cap)
    )
