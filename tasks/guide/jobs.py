"""The jobs of a guided run: for each its content key, which covers all that determines the result, and its spec.

    rollout   {"answers": [{"text", "tokens", "finish"}], "prompt_tokens"}, one answer for each seed
    lengths   {"tokens": [of each prompt], "context": of the target, None where nobody says it}
    ask       {"text", "finish", "by", "tokens", "usage": {"prompt", "cached", "completion", "cost_usd"}}
    verify    {"verified": [{"verifier_score", "verifier_tags"}]}, one for each candidate

`finish` is "stop", "length", or "stop_string"; of an endpoint also "refusal", "content_filter",
"only_tool_calls", or why the endpoint refuses the reply itself.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tasks.guide.choose import JudgedTicket
from tasks.guide.prompts import Messages
from tasks.guide.ticket import DecodeCell
from tasks.openai.endpoint import EMBEDDED
from tasks.records import Endpoint, JobSpec, Target
from tasks.store.keys import content_hash

AskedFor = Literal["critique", "proposal"]
Backend = Literal["target", "endpoint"]  # which model critic and reflector are
KeyedJob = tuple[str, JobSpec]
GUIDE = "guide"  # under which the store has the context
JOB_LIMIT_S = 1800.0  # the hard time limit of one job


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


def rollout_job(
    context: GuideContext, messages: Messages, cell: DecodeCell, seeds: Sequence[int], regex: str | None, label: str
) -> KeyedJob:
    """The candidates of one ticket in one decode cell, one for each of `seeds` (of a greedy cell: exactly one).

    `regex` is what the server makes the answers match, None for nothing.
    """
    sampling = dataclasses.asdict(cell) | {"seed": None, "stop": list(cell.stop)}
    drawn = [] if cell.is_greedy else list(seeds)  # a greedy answer has no seed
    arguments = {"messages": list(messages), "cell": sampling, "seeds": list(seeds), "regex": regex}
    key = _key("rollout", context.server, messages, sampling, drawn, regex)
    return key, JobSpec("gpu.rollout", label, arguments, JOB_LIMIT_S)


def lengths_job(context: GuideContext, prompts: Sequence[Messages], label: str) -> KeyedJob:
    asked = [list(messages) for messages in prompts]
    key = _key("lengths", context.server, context.target.args, asked)
    return key, JobSpec("gpu.prompt_lengths", label, {"prompts": asked}, JOB_LIMIT_S)


def ask_job(
    context: GuideContext,
    backend: Backend,
    asked_for: AskedFor,
    messages: Messages,
    schema: Mapping[str, Any] | None,
    sampling: Mapping[str, Any],
    label: str,
) -> KeyedJob:
    """A critique or a proposal; `sampling` has temperature, top_p, max_new_tokens and seed, None for none.

    schema: of the target's grammar; None for an endpoint, whose replies have the form of their type.
    """
    drawn = {**sampling, "seed": None} if sampling["temperature"] == 0 and backend == "target" else sampling
    answers: Any = context.server
    if backend == "endpoint":
        answers = [(context.endpoint and context.endpoint.base_url) or EMBEDDED, context.endpoint_model]
    task = f"{'gpu' if backend == 'target' else 'openai'}.{'critique' if asked_for == 'critique' else 'propose'}"
    arguments = {"messages": list(messages), "schema": schema, **sampling}
    return _key(asked_for, answers, messages, schema, drawn), JobSpec(task, label, arguments, JOB_LIMIT_S)


def verify_job(verifier: str, identity: str, found: JudgedTicket, label: str) -> KeyedJob:
    """What a verifier says of the candidates of a ticket; `identity` is of its source."""
    asked = {"ticket": dataclasses.asdict(found.ticket), "candidates": list(map(dataclasses.asdict, found.candidates))}
    arguments = {"verifier": verifier, "identity": identity, **asked}
    return _key("verified", arguments), JobSpec("cpu.verify", label, arguments, JOB_LIMIT_S)


def _key(prefix: str, *parts: Any) -> str:
    return f"{prefix}:" + content_hash(*parts)
