"""The body of a /generate request, checked, and the form of its reply.  No torch, no HTTP.

Only known keys are accepted, as in SGLang, which answers an unknown sampling key with HTTP 400; keys that SGLang knows
and this server does not are refused as well.  A reply's `output_ids` contain the stop token or the tokens of the stop
text that ended the answer, and `completion_tokens` counts them, as in SGLang; `text` is without them.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workers.steering.request import CLASS, MODULE, Steering, check_params, parse_reference

if TYPE_CHECKING:
    from workers.embedded.target.sampling import Constraint

GrammarKind = Literal["regex", "json_schema"]
FILE_CLASS = "DeltaProcessor"  # of a generated processor file, whose module has the file's name
TokenId = Annotated[int, Field(ge=0)]
StopText = Annotated[str, Field(min_length=1)]  # each text has an empty one in it


class BadRequest(ValueError):
    """The request cannot be served; the message is for the client."""


class SamplingParams(BaseModel):
    """`sampling_params`, with SGLang's names and defaults. Temperature 0 is greedy; without a seed each draw is new."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    max_new_tokens: int = Field(default=128, ge=1)
    temperature: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0, le=1)
    sampling_seed: int | None = Field(default=None, ge=0, lt=2**63)
    stop_token_ids: list[TokenId] | None = None
    stop: StopText | list[StopText] | None = None
    regex: str | None = None
    json_schema: str | None = None
    custom_params: dict[str, Any] | None = None

    @property
    def stop_texts(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def grammar(self) -> tuple[GrammarKind, str] | None:
        """What the answer is to match."""
        if self.regex is not None and self.json_schema is not None:
            raise BadRequest("only one of regex and json_schema can be set")
        if self.regex is not None:
            return "regex", self.regex
        return None if self.json_schema is None else ("json_schema", self.json_schema)


class GenerateBody(BaseModel):
    """The body of /generate: one prompt as token ids."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    input_ids: Annotated[list[TokenId], Field(min_length=1)]
    sampling_params: SamplingParams = SamplingParams()
    custom_logit_processor: str | None = None
    rid: str | None = None
    stream: Literal[False] = False


@dataclass(frozen=True)
class GenerationRequest:
    """One checked request. `stop_ids` are the tokens that end its answer.

    It is steered by its own `steering`, by the server's processor file, whose hash `processor` then is, or not at all.
    `grammar` is that of its sampling parameters, compiled.
    """

    rid: str
    input_ids: tuple[int, ...]
    sampling: SamplingParams
    stop_ids: frozenset[int]
    steering: Steering | None
    processor: str = ""
    grammar: Constraint | None = None

    @property
    def digest(self) -> str:
        """The same for two requests that must give the same answer: sha256 of prompt, sampling and steering."""
        text = f"{self.input_ids}\n{self.sampling.model_dump_json()}{self.processor}"
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Limits:
    """What a request is checked against. `eos` are the model's own end tokens; `context` in tokens.

    `processor` is the hash of the processor file that the server has loaded, "" for none, and `module` its name.
    """

    context: int
    vocabulary: int
    eos: frozenset[int]
    labels: Path
    processor: str = ""
    module: str = ""


@dataclass(frozen=True)
class Finished:
    """The result of a request.

    `matched` is the stop token, the last of `output_ids`, or the stop text, if one ended the answer.  `ends_unsteered`:
    a stop token was also the most likely one before the logits were steered.
    """

    output_ids: tuple[int, ...]
    cached_tokens: int
    reason: Literal["stop", "length", "abort"]
    matched: int | str | None = None
    ends_unsteered: bool = False

    @property
    def text_ids(self) -> tuple[int, ...]:
        """The answer's tokens, without the stop token."""
        return self.output_ids[:-1] if isinstance(self.matched, int) else self.output_ids

    def text(self, decode: Callable[[Sequence[int]], str]) -> str:
        """The answer, without what ended it."""
        whole = decode(self.text_ids)
        return whole.partition(self.matched)[0] if isinstance(self.matched, str) else whole


def parse_body(raw: bytes) -> GenerateBody:
    try:
        return GenerateBody.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise BadRequest(f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}") from None


def make_request(body: GenerateBody, limits: Limits, grammar: Constraint | None = None) -> GenerationRequest:
    """The request of a body, its grammar compiled."""
    sampling, ids = body.sampling_params, tuple(body.input_ids)
    if (highest := max(ids)) >= limits.vocabulary:
        raise BadRequest(f"input_ids: {highest} is not below the vocabulary of {limits.vocabulary}")
    if len(ids) + sampling.max_new_tokens > limits.context:
        raise BadRequest(
            f"{len(ids)} prompt tokens and {sampling.max_new_tokens} new ones exceed the model's context length "
            f"of {limits.context}"
        )
    stops = frozenset(id for id in limits.eos | set(sampling.stop_token_ids or ()) if id < limits.vocabulary)
    rid = body.rid or uuid.uuid4().hex
    named = _named(body.custom_logit_processor)
    if limits.processor and named == (limits.module, FILE_CLASS):
        return GenerationRequest(rid, ids, sampling, stops, None, limits.processor, grammar)
    return GenerationRequest(rid, ids, sampling, stops, _steering(sampling.custom_params, named, limits), "", grammar)


def _named(processor: str | None) -> tuple[str, str] | None:
    try:
        return None if processor is None else parse_reference(processor)
    except ValueError as error:
        raise BadRequest(str(error)) from error


def _steering(params: dict[str, Any] | None, named: tuple[str, str] | None, limits: Limits) -> Steering | None:
    if named is None and params is None:
        return None
    # One without the other would leave the answer unsteered without notice.
    if named is None or params is None:
        raise BadRequest("custom_logit_processor and sampling_params.custom_params go together")
    if named != (MODULE, CLASS):
        raise BadRequest(f"this server knows the processor {MODULE}.{CLASS} only, not {'.'.join(named)}")
    try:
        steering = check_params(params, limits.labels)
    except ValueError as error:
        raise BadRequest(str(error)) from error
    if len(steering.labels) > limits.vocabulary:
        raise BadRequest(f"{len(steering.labels)} labels do not fit a vocabulary of {limits.vocabulary}")
    return steering


def make_reply(request: GenerationRequest, finished: Finished, text: str, seconds: float) -> dict[str, Any]:
    """The JSON of one answer."""
    reason: dict[str, Any] = {"type": finished.reason}
    if finished.reason == "stop":
        reason["matched"] = finished.matched
    else:
        reason["length"] = len(finished.output_ids)
    return {
        "text": text,
        "output_ids": list(finished.output_ids),
        "meta_info": {
            "id": request.rid,
            "finish_reason": reason,
            "prompt_tokens": len(request.input_ids),
            "completion_tokens": len(finished.output_ids),
            "cached_tokens": finished.cached_tokens,
            "e2e_latency": seconds,
            "ends_unsteered": finished.ends_unsteered,
        },
    }
