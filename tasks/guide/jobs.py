"""The jobs of a guided run: for each its content key, which covers all that determines the result, and its spec.

    rollout   {"answers": [{"text", "tokens", "finish"}], "prompt_tokens"}, one answer for each seed
    lengths   {"tokens": [of each prompt], "context": of the target, None where nobody says it}
    ask       {"text", "finish", "by", "tokens", "usage": {"prompt", "cached", "completion", "cost_usd"}}
    verify    {"verified": [{"verifier_score", "verifier_tags"}]}, one for each candidate

`finish` is "stop", "length", or "stop_string"; of an endpoint also "refusal" and "content_filter".
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from tasks.common.validation import parse_json
from tasks.guide.candidates import DecodeCell, GuideCandidate, Ticket
from tasks.guide.replies import without_bounds
from tasks.job import Job, JobSpec
from tasks.openai.provider import EMBEDDED
from tasks.openai.schema import Schema
from tasks.records import Endpoint, Target
from tasks.store.keys import content_hash
from tasks.task import discard

Backend = Literal["target", "endpoint"]
AskedFor = Literal["critique", "proposal"]
Messages = tuple[str, ...]
"""The system message, then those of user and assistant in turn; the last one is the user's."""

GUIDE = "guide"  # under which the store has it


@dataclass(frozen=True)
class GuideContext:
    """The target that answers, and the endpoint that criticises or proposes where the settings say so.

    `server` is the identity of the target's server (tasks/gpu/host.py): with it the keys cover model, weights,
    tokenizer and chat template.  Of `target`, system prompt, template and sampling are not used: each job has its own.
    """

    target: Target
    server: Mapping[str, Any] = field(default_factory=dict)
    endpoint: Endpoint | None = None
    endpoint_model: str = ""

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> GuideContext:
        return parse_json(cls, text)


def guide_context(job: Job) -> GuideContext:
    """The context of the job's run."""
    text = job.store.metadata(job.run, GUIDE)
    if text is None:
        raise discard(f"no guided run {job.run!r} in the store")
    return _parsed(text)


@lru_cache(maxsize=4)
def _parsed(text: str) -> GuideContext:
    return GuideContext.from_json(text)


KeyedJob = tuple[str, JobSpec]


@dataclass(frozen=True)
class VerifyInput:
    """The candidates of a ticket for a verifier; `identity` is of its source (`tasks.guide.verifier`)."""

    verifier: str
    identity: str
    ticket: Ticket
    candidates: tuple[GuideCandidate, ...]


_ASK_TASKS: Mapping[tuple[Backend, AskedFor], str] = {
    ("target", "critique"): "gpu.critique",
    ("target", "proposal"): "gpu.propose",
    ("endpoint", "critique"): "openai.critique",
    ("endpoint", "proposal"): "openai.propose",
}


def rollout_job(
    context: GuideContext,
    messages: Messages,
    cell: DecodeCell,
    seeds: Sequence[int],
    regex: str | None,
    label: str,
) -> KeyedJob:
    """The candidates of one ticket in one decode cell, one for each of `seeds` (of a greedy cell: exactly one).

    `regex` is what the server makes the answers match, None for nothing.
    """
    sampling = dataclasses.asdict(cell) | {"seed": None, "stop": list(cell.stop)}
    drawn = [] if cell.is_greedy else list(seeds)  # a greedy answer has no seed
    key = _key("rollout", context.server, messages, sampling, drawn, regex)
    arguments = {"messages": list(messages), "cell": sampling, "seeds": list(seeds), "regex": regex}
    return key, JobSpec("gpu.rollout", label, arguments)


def lengths_job(context: GuideContext, prompts: Sequence[Messages], label: str) -> KeyedJob:
    """The tokens of prompts, and the target's context."""
    key = _key("lengths", context.server, context.target.args, list(map(list, prompts)))
    return key, JobSpec("gpu.prompt_lengths", label, {"prompts": list(map(list, prompts))})


def ask_job(
    context: GuideContext,
    backend: Backend,
    asked_for: AskedFor,
    messages: Messages,
    schema: Schema,
    *,
    temperature: float,
    top_p: float,
    max_new_tokens: int,
    seed: int | None,
    label: str,
) -> KeyedJob:
    """A critique or a proposal.  The reply comes as it was written: whoever asked reads it.

    An endpoint gets the schema without bounds, and no seed where that is None.
    """
    sampling = {"temperature": temperature, "top_p": top_p, "max_new_tokens": max_new_tokens, "seed": seed}
    schema = schema if backend == "target" else without_bounds(schema)
    arguments = {"messages": list(messages), "schema": schema, **sampling}
    drawn = sampling | {"seed": None} if temperature == 0 and backend == "target" else sampling
    key = _key(asked_for, _identity(context, backend), messages, schema, drawn)
    return key, JobSpec(_ASK_TASKS[backend, asked_for], label, arguments)


def verify_job(asked: VerifyInput, label: str) -> KeyedJob:
    """What a verifier says of the candidates of a ticket."""
    arguments = dataclasses.asdict(asked)
    return _key("verified", arguments), JobSpec("cpu.verify", label, arguments)


def _identity(context: GuideContext, backend: Backend) -> Any:
    if backend == "target":
        return context.server
    if context.endpoint is None:
        raise ValueError("the run has no endpoint")
    return [context.endpoint.base_url or EMBEDDED, context.endpoint_model]


def _key(prefix: str, *parts: Any) -> str:
    return f"{prefix}:" + content_hash(*parts)
