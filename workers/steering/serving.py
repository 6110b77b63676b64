"""A server that steers all chat completions by itself: `WHETSTONE_SYSTEM` names the file of a system.

The file is JSON: `{"clustering", "deltas", "end": "sentence" | "any", "system_prompt", "model"}`.  The labels of its
clustering are beside it.  Without deltas nothing is steered.  `system_prompt` ("" for none) is used where a client
sends no system message of its own.  A server of another `model` does not start.

Clients send what they sent before.  A request is left as it is where it has `custom_params` or a processor of its own
(`"custom_params": {}` is enough), token ids in place of messages, a grammar, or tools: no search was for such answers.
The first of each kind is in the log.
"""

from __future__ import annotations

import importlib
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .request import CLASS, MODULE, check_params

SYSTEM_VARIABLE = "WHETSTONE_SYSTEM"
CHAT = "sglang.srt.entrypoints.openai.serving_chat.OpenAIServingChat"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServedSystem:
    params: dict[str, Any] | None  # the `custom_params` of each chat completion, None where nothing is steered
    system_prompt: str
    model: dict[str, str]  # its "name", and the hashes of its "config" and "tokenizer"


def read_system(path: Path, labels: Path) -> ServedSystem:
    """`labels` is the folder of labels.  A server that would answer without its system does not start."""
    try:
        found = json.loads(path.read_text("utf-8"))
        params = {name: found[name] for name in ("clustering", "deltas", "end")} if found["deltas"] else None
        if params is not None:
            check_params(params, labels)
        model = {part: str(found["model"][part]) for part in ("name", "config", "tokenizer")}
        return ServedSystem(params, str(found["system_prompt"]), model)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise SystemExit(f"{SYSTEM_VARIABLE}: {path} is no system: {type(error).__name__}: {error}") from None


class Serving:
    def __init__(self, system: ServedSystem) -> None:
        self._system = system
        self._model_files: Any = importlib.import_module(f"{__package__}.model_files")  # the export puts it there
        self._seen: set[str] = set()  # kinds of requests

    def check_model(self, _: None, manager: Any, *args: Any, **options: Any) -> None:
        """After SGLang's tokenizer manager is made, while the model loads: another model's server ends."""
        try:
            self._model_files.check_same_model(manager.server_args.model_path, self._system.model)
        except ValueError as error:
            raise SystemExit(f"{SYSTEM_VARIABLE}: {error}") from None

    def steer_chat(self, _chat: Any, request: Any, raw_request: Any = None) -> None:
        """Before SGLang renders a `ChatCompletionRequest`."""
        reason = left_alone(request)
        if (kind := reason or "steered") not in self._seen:
            self._seen.add(kind)
            log.info("the first chat completion of this kind: %s", kind)
        if reason:
            return
        system = self._system
        if system.params is not None:
            request.custom_logit_processor = self._model_files.reference(MODULE, CLASS)
            request.custom_params = dict(system.params)
        if system.system_prompt and not any(one.role in ("system", "developer") for one in request.messages):
            from sglang.srt.entrypoints.openai.protocol import ChatCompletionMessageGenericParam as Message

            request.messages = [Message(role="system", content=system.system_prompt), *request.messages]


def left_alone(request: Any) -> str:
    """Why a chat completion is not steered; "" for one that is."""
    if request.custom_params is not None or request.custom_logit_processor is not None:
        return "own parameters"
    if request.input_ids is not None:
        return "token ids"
    if request.regex or request.ebnf or getattr(request.response_format, "type", "text") != "text":
        return "grammar"
    return "tools" if request.tools else ""
