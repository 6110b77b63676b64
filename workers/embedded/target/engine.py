"""Continuous batching: requests join and leave the decoding rows at any step, each answer as if it were alone."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Literal

import torch

from workers.embedded.target.attention import PrefixCache
from workers.embedded.target.decoder import Decoder
from workers.embedded.target.protocol import Finished, GenerationRequest
from workers.embedded.target.sampling import (
    Constraint,
    GrammarRefused,
    ProcessorFile,
    Sampler,
    Steer,
    StopTexts,
    steer_by_deltas,
)


class EngineStopped(RuntimeError):
    """The engine has ended, on request or by an error; no request will be answered any more."""


@dataclass(eq=False)
class PendingRequest:
    """A request and its future result. Set `abort` to end it at the next step with the tokens that it has."""

    request: GenerationRequest
    done: Future[Finished] = field(default_factory=Future)
    abort: threading.Event = field(default_factory=threading.Event)


@dataclass(eq=False)
class RunningRequest:
    """A request in a row. `produced` grows; its last token is not in the row's keys and values yet."""

    pending: PendingRequest
    sampler: Sampler
    steer: Steer | None
    constraint: Constraint | None
    stop_texts: StopTexts
    cached_tokens: int
    produced: list[int]

    @property
    def position(self) -> int:
        """The position of the last produced token in the text."""
        return len(self.pending.request.input_ids) + len(self.produced) - 1


class Engine:
    """Owns the model. One thread calls `run`; the other methods may be called from any thread.

    That thread should be the process's main one.  The OpenMP of gcc lets only so many threads spin as there are
    cores, and counts the main thread's first.  In any other thread each parallel loop begins by waking a sleeping
    thread, and a step takes twice as long.

    `decode` gives the text of token ids, for requests that end at a text.
    """

    def __init__(
        self,
        decoder: Decoder,
        rows: int,
        prompts: PrefixCache,
        processor: ProcessorFile | None = None,
        decode: Callable[[Sequence[int]], str] = lambda ids: "",
    ) -> None:
        self.rows = rows
        self._decoder = decoder
        self._decode = decode
        self._processor = processor
        self._prompts = prompts
        self._cache = decoder.new_cache(rows)
        self._running: list[RunningRequest | None] = [None] * rows
        self._waiting: deque[PendingRequest] = deque()
        self._changed = threading.Condition()
        self._stopped = False

    def submit(self, request: GenerationRequest) -> PendingRequest:
        """Queue a request; first come, first served."""
        pending = PendingRequest(request)
        with self._changed:
            if self._stopped:
                raise EngineStopped("the engine has stopped")
            self._waiting.append(pending)
            self._changed.notify()
        return pending

    @property
    def alive(self) -> bool:
        return not self._stopped

    @property
    def in_flight(self) -> tuple[int, int]:
        """Requests in rows and requests that wait for one."""
        return sum(running is not None for running in self._running), len(self._waiting)

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
                    self._end_aborted()
                    self._move_down()
                    self._step()
        finally:
            with self._changed:
                self._stopped = True
                unanswered = [*(running.pending for running in self._running if running), *self._waiting]
            for pending in unanswered:
                pending.done.set_exception(EngineStopped("the engine has stopped"))

    def _wait_for_requests(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._waiting or any(self._running))
            return not self._stopped

    def _admit(self) -> None:
        for row in [row for row, running in enumerate(self._running) if running is None]:
            if not self._waiting:
                return
            pending = self._waiting[0]  # it counts as waiting until it has its row
            if pending.abort.is_set():
                self._waiting.popleft()
                pending.done.set_result(Finished((), 0, "abort"))
            else:
                self._start(row, pending)

    def _start(self, row: int, pending: PendingRequest) -> None:
        request, processor = pending.request, self._processor
        prompt = self._prompts.get(request.input_ids)
        cached = 0 if prompt is None else len(request.input_ids)
        if prompt is None:
            prompt = self._decoder.prefill(request.input_ids)
            self._prompts.put(request.input_ids, prompt)
        steer: Steer | None = None
        if request.steering is not None:
            steer = steer_by_deltas(request.steering, self._decoder.vocabulary)
        elif request.processor and processor is not None:
            params = request.sampling.custom_params
            steer = lambda logits, answer: processor.steer_row(logits, params, answer)  # noqa: E731
        running = RunningRequest(
            pending=pending,
            sampler=Sampler(request.sampling),
            steer=steer,
            constraint=request.grammar.start() if request.grammar else None,
            stop_texts=StopTexts(request.sampling.stop_texts, self._decode),
            cached_tokens=cached,
            produced=[],
        )
        self._cache.admit(row, prompt.kv)
        with self._changed:
            self._waiting.popleft()
            self._running[row] = running
        self._extend(row, running, prompt.logits)

    def _end_aborted(self) -> None:
        for row, running in enumerate(self._running):
            if running is not None and running.pending.abort.is_set():
                self._finish(row, running, "abort")

    def _move_down(self) -> None:
        """Have the requests in the lowest rows: a step is faster the lower the highest row in use is."""
        used = sum(running is not None for running in self._running)
        free = (row for row, running in enumerate(self._running) if running is None)
        for row in range(used, len(self._running)):
            if (running := self._running[row]) is not None:
                to = next(free)
                self._cache.move(row, to)
                with self._changed:
                    self._running[to], self._running[row] = running, None

    def _step(self) -> None:
        active = {row: running for row, running in enumerate(self._running) if running is not None}
        if not active:
            return
        entering = {row: (running.produced[-1], running.position) for row, running in active.items()}
        logits = self._decoder.step(entering, self._cache)
        for row, running in active.items():
            self._extend(row, running, logits[row])

    def _extend(self, row: int, running: RunningRequest, logits: torch.Tensor) -> None:
        """Choose the row's next token from its plain logits [vocabulary], and end the row when it was the last."""
        request, constraint = running.pending.request, running.constraint
        try:
            steered = logits if running.steer is None else running.steer(logits, running.produced)
            token = running.sampler.choose(steered if constraint is None else constraint.mask(steered))
            running.produced.append(token)
            is_complete = constraint is not None and constraint.accept(token)
        except GrammarRefused as error:
            self._release(row)
            running.pending.done.set_exception(error)
            return
        # A stop token is reported as "stop", also where the answer has reached its length limit with it.
        if token in request.stop_ids or is_complete:
            self._finish(row, running, "stop", token, int(logits.argmax()) in request.stop_ids)
        elif len(running.produced) >= request.sampling.max_new_tokens:
            self._finish(row, running, "length")
        elif (text := running.stop_texts.find(running.produced)) is not None:
            self._finish(row, running, "stop", text)

    def _finish(
        self,
        row: int,
        running: RunningRequest,
        reason: Literal["stop", "length", "abort"],
        matched: int | str | None = None,
        unsteered: bool = False,
    ) -> None:
        self._release(row)
        finished = Finished(tuple(running.produced), running.cached_tokens, reason, matched, unsteered)
        running.pending.done.set_result(finished)

    def _release(self, row: int) -> None:
        with self._changed:
            self._running[row] = None
        self._cache.release(row)
