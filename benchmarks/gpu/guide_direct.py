"""The steps of `guide` without farm and store: what a step asks is answered by the server, or computed here.

It is for measuring what the model and the rules do, many times over; `guide_learning.py` measures whole runs on a farm.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from benchmarks.gpu.guide_asking import Asking
from orchestrator.dispatch.scheduler import Request
from orchestrator.guide.steps import Steps
from tasks.gpu.rollout import finish_of
from tasks.gpu.target import Generated, GenerateRequest
from tasks.guide.batch import BatchInput, GateInput, decide_gate, find_in_batch
from tasks.guide.decoding import DecodeCell
from tasks.validation import parse_json

T = TypeVar("T")


class DirectAnswers:
    """Answers the requests of steps.  `asked` has the requests of critic and reflector, for whoever asks them again."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self.asked: list[tuple[str, GenerateRequest]] = []

    def drive(self, steps: Steps[T]) -> T:
        """What steps return in the end.  Raises: what they raise."""
        try:
            asked = next(steps)
            while True:
                asked = steps.send(self.results(asked))
        except StopIteration as done:
            value: T = done.value
            return value

    def results(self, requests: Sequence[Request]) -> dict[str, Mapping[str, Any]]:
        """By key; all that goes to the server is in flight at once."""
        sent = {request.key: self._sent(request) for request in requests}
        flat = [(key, one) for key, ones in sent.items() for one in ones]
        answers: dict[str, list[Generated]] = {}
        for (key, _), answer in zip(flat, self._asking.generate([one for _, one in flat]), strict=True):
            answers.setdefault(key, []).append(answer)
        return {request.key: self._result(request, answers.get(request.key, [])) for request in requests}

    def _sent(self, request: Request) -> list[GenerateRequest]:
        """What the server is asked for a request."""
        task, arguments = request.spec.task, request.spec.arguments
        if task == "gpu.rollout":
            cell = DecodeCell(**{**arguments["cell"], "stop": tuple(arguments["cell"]["stop"])})
            cells = [dataclasses.replace(cell, seed=seed) for seed in arguments["seeds"]]
            return [self._asking.request(tuple(arguments["messages"]), one, arguments["regex"]) for one in cells]
        if task in ("gpu.critique", "gpu.propose"):
            cell = DecodeCell(
                arguments["temperature"], arguments["top_p"], arguments["max_new_tokens"], arguments["seed"]
            )
            schema = json.dumps(arguments["schema"])
            sent = self._asking.request(tuple(arguments["messages"]), cell, json_schema=schema)
            self.asked.append((task, sent))
            return [sent]
        return []

    def _result(self, request: Request, answers: Sequence[Generated]) -> Mapping[str, Any]:
        task, arguments = request.spec.task, request.spec.arguments
        given = [{"text": a.text, "tokens": a.completion_tokens, "finish": finish_of(a)} for a in answers]
        match task:
            case "gpu.rollout":
                return {"answers": given, "prompt_tokens": answers[0].prompt_tokens}
            case "gpu.critique" | "gpu.propose":
                used = {
                    "prompt": answers[0].prompt_tokens,
                    "cached": 0,
                    "completion": given[0]["tokens"],
                    "cost_usd": 0.0,
                }
                return {**given[0], "by": self._asking.model, "usage": used}
            case "gpu.prompt_lengths":
                cell = DecodeCell(0.0, 1.0, 1)
                prompts = [self._asking.request(tuple(prompt), cell).input_ids for prompt in arguments["prompts"]]
                return {"tokens": [len(prompt) for prompt in prompts], "context": None}
            case "cpu.signals":
                return dataclasses.asdict(find_in_batch(parse_json(BatchInput, json.dumps(arguments))))
            case "cpu.gate":
                return dataclasses.asdict(decide_gate(parse_json(GateInput, json.dumps(arguments))))
        raise ValueError(f"{task} is not asked here")
