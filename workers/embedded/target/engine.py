"""Continuous batching: requests join and leave the decoding rows at any step, each answer as if it were alone."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from workers.embedded.target.attention import PrefixCache
from workers.embedded.target.decoder import Decoder
from workers.embedded.target.protocol import Finished, GenerationRequest, Reason
from workers.embedded.target.sampling import BadRequest, Constraint, Sampler, Steer, find_stop_text


class EngineStopped(RuntimeError):
    """The engine has ended, on request or by an error; no request will be answered any more."""


@dataclass(eq=False)
class Answer:
    """A request in a row. `produced` grows; its last token is not in the row's keys and values yet."""

    request: GenerationRequest
    sampler: Sampler
    steer: Steer | None
    constraint: Constraint | None
    cached_tokens: int
    produced: list[int] = field(default_factory=list)

    @property
    def entering(self) -> tuple[int, int]:
        """The last produced token, and its position in the text."""
        return self.produced[-1], len(self.request.input_ids) + len(self.produced) - 1


class Engine:
    """Owns the model. One thread calls `run`; the other methods may be called from any thread.

    That thread should be the process's main one: in others gcc's OpenMP takes twice as long for a step.  `decode` gives
    the text of token ids, for requests that end at a text.
    """

    def __init__(
        self, decoder: Decoder, rows: int, prompts: PrefixCache, decode: Callable[[Sequence[int]], str] = lambda ids: ""
    ) -> None:
        self.rows = rows
        self._decoder, self._prompts, self._decode = decoder, prompts, decode
        self._cache = decoder.new_cache(rows)
        self._answers: list[Answer | None] = [None] * rows
        self._waiting: deque[GenerationRequest] = deque()
        self._changed = threading.Condition()
        self._stopped = False

    def submit(self, request: GenerationRequest) -> None:
        with self._changed:
            if self._stopped:
                raise EngineStopped("the engine has stopped")
            self._waiting.append(request)
            self._changed.notify()

    @property
    def alive(self) -> bool:
        return not self._stopped

    @property
    def in_flight(self) -> tuple[int, int]:
        """Requests in rows, and those that wait for one."""
        return sum(answer is not None for answer in self._answers), len(self._waiting)

    def close(self) -> None:
        """Have `run` return after the step in progress; unanswered requests fail with EngineStopped."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def run(self) -> None:
        """Answer requests until `close`. Whatever the model raises ends the engine, and is raised."""
        try:
            with torch.inference_mode():
                while self._wait_for_requests():
                    self._admit()
                    for row, answer in enumerate(self._answers):
                        if answer is not None and answer.request.abort.is_set():
                            self._finish(row, answer, "abort")
                    self._move_down()
                    self._step()
        finally:
            with self._changed:
                self._stopped = True
                unanswered = [*(answer.request for answer in self._answers if answer), *self._waiting]
            for request in unanswered:
                request.done.set_exception(EngineStopped("the engine has stopped"))

    def _wait_for_requests(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._waiting or any(self._answers))
            return not self._stopped

    def _admit(self) -> None:
        for row in [row for row, answer in enumerate(self._answers) if answer is None]:
            if not self._waiting:
                return
            request = self._waiting[0]  # it counts as waiting until it has its row
            if request.abort.is_set():
                self._waiting.popleft()
                request.done.set_result(Finished((), 0, "abort"))
            else:
                self._start(row, request)

    def _start(self, row: int, request: GenerationRequest) -> None:
        ids, sampling = request.input_ids, request.sampling
        prompt, cached = self._prompts.get(ids), len(ids)
        if prompt is None:
            prompt, cached = self._decoder.prefill(ids), 0
            self._prompts.put(ids, prompt)
        answer = Answer(
            request,
            Sampler(sampling.temperature, sampling.top_p, sampling.sampling_seed),
            request.steer() if request.steer else None,
            request.grammar.start() if request.grammar else None,
            cached,
        )
        self._cache.admit(row, prompt.kv)
        with self._changed:
            self._waiting.popleft()
            self._answers[row] = answer
        self._extend(row, answer, prompt.logits)

    def _move_down(self) -> None:
        """Have the requests in the lowest rows: a step is faster the lower the highest row in use is."""
        used, _ = self.in_flight
        free = (row for row, answer in enumerate(self._answers) if answer is None)
        for row in range(used, len(self._answers)):
            if (answer := self._answers[row]) is not None:
                to = next(free)
                self._cache.move(row, to)
                with self._changed:
                    self._answers[to], self._answers[row] = answer, None

    def _step(self) -> None:
        active = {row: answer for row, answer in enumerate(self._answers) if answer is not None}
        if not active:
            return
        logits = self._decoder.step({row: answer.entering for row, answer in active.items()}, self._cache)
        for row, answer in active.items():
            self._extend(row, answer, logits[row])

    def _extend(self, row: int, answer: Answer, logits: torch.Tensor) -> None:
        """Choose the row's next token from its plain logits [vocabulary], and end the row when it was the last."""
        request, constraint = answer.request, answer.constraint
        try:
            steered = logits if answer.steer is None else answer.steer(logits, answer.produced)
            token = answer.sampler.choose(steered if constraint is None else constraint.mask(steered))
            answer.produced.append(token)
            is_complete = constraint is not None and constraint.accept(token)
        except BadRequest as error:
            self._release(row)
            request.done.set_exception(error)
            return
        # A stop token is reported as "stop", also where the answer has reached its length limit with it.
        if token in request.stop_ids or is_complete:
            self._finish(row, answer, "stop", token, int(logits.argmax()) in request.stop_ids)
        elif len(answer.produced) >= request.sampling.max_new_tokens:
            self._finish(row, answer, "length")
        elif text := find_stop_text(request.sampling.stop_texts, answer.produced, self._decode):
            self._finish(row, answer, "stop", text)

    def _finish(self, row: int, answer: Answer, reason: Reason, *more: Any) -> None:
        self._release(row)
        answer.request.done.set_result(Finished(tuple(answer.produced), answer.cached_tokens, reason, *more))

    def _release(self, row: int) -> None:
        with self._changed:
            self._answers[row] = None
        self._cache.release(row)
