"""The body of a /generate request, checked, and the form of its reply.  No torch, no HTTP.

Only known keys are accepted, as in SGLang, which answers an unknown sampling key with HTTP 400; keys that SGLang knows
and this server does not are refused as well.  A reply's `output_ids` contain the stop token that ended the answer, and
`completion_tokens` counts it, as in SGLang; `text` is without it.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workers.steering.request import CLASS, MODULE, Steering, check_params, parse_reference

FILE_CLASS = "DeltaProcessor"  # of a generated processor file, whose module has the file's name
TokenId = Annotated[int, Field(ge=0)]


class BadRequest(ValueError):
    """The request cannot be served; the message is for the client."""


class SamplingParams(BaseModel):
    """`sampling_params`, with SGLang's names and defaults. Temperature 0 is greedy; without a seed each draw is new."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    max_new_tokens: int = Field(default=128, ge=1)
    min_new_tokens: int = Field(default=0, ge=0)
    temperature: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=-1, ge=-1)
    sampling_seed: int | None = Field(default=None, ge=0, lt=2**63)
    stop_token_ids: list[TokenId] | None = None
    ignore_eos: bool = False
    custom_params: dict[str, Any] | None = None


class GenerateBody(BaseModel):
    """The body of /generate: one request, or a list of prompts that share everything else."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    text: str | list[str] | None = None
    input_ids: list[TokenId] | list[list[TokenId]] | None = None
    sampling_params: SamplingParams = SamplingParams()
    custom_logit_processor: str | None = None
    rid: str | list[str] | None = None
    stream: Literal[False] = False

    @property
    def is_list(self) -> bool:
        prompts = self.input_ids if self.text is None else self.text
        return isinstance(prompts, list) and (self.text is not None or bool(prompts and isinstance(prompts[0], list)))


@dataclass(frozen=True)
class GenerationRequest:
    """One checked request. `stop_ids` are the tokens that end its answer.

    It is steered by its own `steering`, by the server's processor file, whose hash `processor` then is, or not at all.
    """

    rid: str
    input_ids: tuple[int, ...]
    sampling: SamplingParams
    stop_ids: frozenset[int]
    steering: Steering | None
    processor: str = ""

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
    """The result of a request. `matched` is the stop token, the last of `output_ids`, if one ended the answer."""

    output_ids: tuple[int, ...]
    cached_tokens: int
    reason: Literal["stop", "length", "abort"]
    matched: int | None = None

    @property
    def text_ids(self) -> tuple[int, ...]:
        return self.output_ids if self.matched is None else self.output_ids[:-1]


def parse_body(raw: bytes) -> GenerateBody:
    """Raises: BadRequest, naming the first field that is wrong."""
    try:
        return GenerateBody.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise BadRequest(f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}") from None


def make_request(body: GenerateBody, ids: list[int], rid: str | None, limits: Limits) -> GenerationRequest:
    """One request of a body, its text already as ids. Raises: BadRequest."""
    sampling = body.sampling_params
    if not ids:
        raise BadRequest("the prompt is empty: give text or input_ids")
    if (highest := max(ids)) >= limits.vocabulary:
        raise BadRequest(f"input_ids: {highest} is not below the vocabulary of {limits.vocabulary}")
    if len(ids) + sampling.max_new_tokens > limits.context:
        raise BadRequest(
            f"{len(ids)} prompt tokens and {sampling.max_new_tokens} new ones exceed the model's context length "
            f"of {limits.context}"
        )
    if sampling.min_new_tokens > sampling.max_new_tokens:
        raise BadRequest("min_new_tokens is more than max_new_tokens")
    if sampling.top_k == 0:
        raise BadRequest("top_k must be -1, for all, or at least 1")
    stops = frozenset() if sampling.ignore_eos else limits.eos | set(sampling.stop_token_ids or ())
    in_vocabulary = frozenset(stop for stop in stops if stop < limits.vocabulary)
    rid = rid or uuid.uuid4().hex
    if limits.processor and _names_file(body.custom_logit_processor, limits.module):
        return GenerationRequest(rid, tuple(ids), sampling, in_vocabulary, None, limits.processor)
    return GenerationRequest(rid, tuple(ids), sampling, in_vocabulary, _steering(body, limits))


def _names_file(processor: str | None, module: str) -> bool:
    try:
        return processor is not None and parse_reference(processor) == (module, FILE_CLASS)
    except ValueError:
        return False


def _steering(body: GenerateBody, limits: Limits) -> Steering | None:
    params = body.sampling_params.custom_params
    if body.custom_logit_processor is None and params is None:
        return None
    # One without the other would leave the answer unsteered without notice.
    if body.custom_logit_processor is None or params is None:
        raise BadRequest("custom_logit_processor and sampling_params.custom_params go together")
    try:
        if (named := parse_reference(body.custom_logit_processor)) != (MODULE, CLASS):
            raise BadRequest(f"this server knows the processor {MODULE}.{CLASS} only, not {'.'.join(named)}")
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
    elif finished.reason == "length":
        reason["length"] = len(finished.output_ids)
    else:
        reason["message"] = "aborted by request"
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
        },
    }
