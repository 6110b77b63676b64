"""The body of a /generate request, checked, and the form of its reply.  No HTTP.

A key that this server does not know is refused, as in SGLang.  As there, a reply's `output_ids` contain the stop token
or the tokens of the stop text that ended the answer, and `completion_tokens` counts them; `text` is without them.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workers.embedded.target.sampling import (
    FILE_CLASS,
    BadRequest,
    Constraint,
    GrammarKind,
    ProcessorFile,
    Steer,
    steer_by_deltas,
)
from workers.steering.request import CLASS, MODULE, check_params, parse_reference

TokenId = Annotated[int, Field(ge=0)]
StopText = Annotated[str, Field(min_length=1)]  # each text has an empty one in it


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
    def stop_texts(self) -> Sequence[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or ()

    @property
    def grammar(self) -> tuple[GrammarKind, str] | None:
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


Reason = Literal["stop", "length", "abort"]


@dataclass(frozen=True)
class Finished:
    output_ids: tuple[int, ...]
    cached_tokens: int
    reason: Reason
    matched: int | str | None = None  # the stop token, the last of `output_ids`, or the stop text that ended it
    ends_unsteered: bool = False  # it would have ended there without steering


@dataclass(eq=False)
class GenerationRequest:
    """One checked request and its future result.  `abort` ends it at the next step with the tokens that it has."""

    input_ids: tuple[int, ...]
    sampling: SamplingParams
    stop_ids: frozenset[int]
    steer: Callable[[], Steer] | None = None  # makes what steers it
    processor: str = ""  # the hash of the file that does
    grammar: Constraint | None = None
    done: Future[Finished] = field(default_factory=Future)
    abort: threading.Event = field(default_factory=threading.Event)

    @property
    def digest(self) -> str:
        """The same for two requests that must give the same answer: sha256 of prompt, sampling and steering."""
        text = f"{self.input_ids}\n{self.sampling.model_dump_json()}{self.processor}"
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Served:
    """What a request is checked against: the model's context, vocabulary and end tokens, labels, and processor file."""

    context: int
    vocabulary: int
    eos: frozenset[int]
    labels: Path
    processor: ProcessorFile | None = None


def parse_body(raw: bytes) -> GenerateBody:
    try:
        return GenerateBody.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise BadRequest(f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}") from None


def make_request(body: GenerateBody, served: Served, grammar: Constraint | None = None) -> GenerationRequest:
    sampling, ids = body.sampling_params, tuple(body.input_ids)
    if (highest := max(ids)) >= served.vocabulary:
        raise BadRequest(f"input_ids: {highest} is not below the vocabulary of {served.vocabulary}")
    if len(ids) + sampling.max_new_tokens > served.context:
        raise BadRequest(
            f"{len(ids)} prompt tokens and {sampling.max_new_tokens} new ones exceed the model's context length "
            f"of {served.context}"
        )
    stops = frozenset(id for id in served.eos | set(sampling.stop_token_ids or ()) if id < served.vocabulary)
    try:
        steer, processor = _steering(body, served)
    except ValueError as error:
        raise BadRequest(str(error)) from error
    return GenerationRequest(ids, sampling, stops, steer, processor, grammar)


def _steering(body: GenerateBody, served: Served) -> tuple[Callable[[], Steer] | None, str]:
    """What makes the request's steering, None for none, and the hash of the file where one steers."""
    params, file = body.sampling_params.custom_params, served.processor
    named = None if body.custom_logit_processor is None else parse_reference(body.custom_logit_processor)
    if file is not None and named == (file.module, FILE_CLASS):
        return lambda: lambda logits, answer: file.steer_row(logits, params, answer), file.sha256
    if named is None and params is None:
        return None, ""
    # One without the other would leave the answer unsteered without notice.
    if named is None or params is None:
        raise BadRequest("custom_logit_processor and sampling_params.custom_params go together")
    if named != (MODULE, CLASS):
        raise BadRequest(f"this server knows the processor {MODULE}.{CLASS} only, not {'.'.join(named)}")
    steering = check_params(params, served.labels)
    if len(steering.labels) > served.vocabulary:
        raise BadRequest(f"{len(steering.labels)} labels do not fit a vocabulary of {served.vocabulary}")
    return partial(steer_by_deltas, steering, served.vocabulary), ""


def make_reply(
    request: GenerationRequest, finished: Finished, decode: Callable[[Sequence[int]], str]
) -> dict[str, Any]:
    """The JSON of one answer; its text is without what ended it."""
    ids, matched = finished.output_ids, finished.matched
    text = decode(ids[:-1] if isinstance(matched, int) else ids)
    reason: dict[str, Any] = {"type": finished.reason}
    reason |= {"matched": matched} if finished.reason == "stop" else {"length": len(ids)}
    return {
        "text": text.partition(matched)[0] if isinstance(matched, str) else text,
        "output_ids": list(ids),
        "meta_info": {
            "finish_reason": reason,
            "prompt_tokens": len(request.input_ids),
            "completion_tokens": len(ids),
            "cached_tokens": finished.cached_tokens,
            "ends_unsteered": finished.ends_unsteered,
        },
    }
