"""Continuous batching: requests join and leave the decoding rows at any step, each answer as if it were alone."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import torch

from workers.embedded.target.attention import PrefixCache
from workers.embedded.target.decoder import Decoder
from workers.embedded.target.protocol import Finished, GenerationRequest
from workers.embedded.target.sampling import BiasCache, Constraint, GrammarRefused, ProcessorFile, Sampler, StopTexts


class EngineStopped(RuntimeError):
    """The engine has ended, on request or by an error; no request will be answered any more."""


Steer = Callable[[torch.Tensor, Sequence[int]], torch.Tensor]
"""From the logits [vocabulary] behind the tokens of an answer to those that are steered."""


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
        self._decoder = decoder
        self._decode = decode
        self._processor = processor
        self._prompts = prompts
        self._biases = BiasCache(decoder.vocabulary)
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
            with self._changed:
                if not self._waiting:
                    return
                pending = self._waiting[0]
            if pending.abort.is_set():
                with self._changed:
                    self._waiting.popleft()
                pending.done.set_result(Finished((), 0, "abort"))
                continue
            self._start(row, pending)

    def _start(self, row: int, pending: PendingRequest) -> None:
        request = pending.request
        prompt = self._prompts.get(request.input_ids)
        cached = 0 if prompt is None else len(request.input_ids)
        if prompt is None:
            prompt = self._decoder.prefill(request.input_ids)
            self._prompts.put(request.input_ids, prompt)
        running = RunningRequest(
            pending=pending,
            sampler=Sampler(request.sampling),
            steer=self._steer(request),
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

    def _steer(self, request: GenerationRequest) -> Steer | None:
        """What steers the request; None for nothing."""
        if (steering := request.steering) is not None:
            return lambda logits, answer: logits + self._biases.get(steering, answer)
        if request.processor and (processor := self._processor) is not None:
            params = request.sampling.custom_params
            return lambda logits, answer: processor.steer_row(logits, params, answer)
        return None

    def _end_aborted(self) -> None:
        for row, running in enumerate(self._running):
            if running is not None and running.pending.abort.is_set():
                self._finish(row, running, Finished(tuple(running.produced), running.cached_tokens, "abort"))

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
        try:
            token, is_complete = self._choose(running, logits)
        except GrammarRefused as error:
            self._release(row)
            running.pending.done.set_exception(error)
            return
        request, produced = running.pending.request, tuple(running.produced)
        # A stop token is reported as "stop", also where the answer has reached its length limit with it.
        if token in request.stop_ids or is_complete:
            unsteered = int(logits.argmax()) in request.stop_ids
            self._finish(row, running, Finished(produced, running.cached_tokens, "stop", token, unsteered))
        elif len(produced) >= request.sampling.max_new_tokens:
            self._finish(row, running, Finished(produced, running.cached_tokens, "length"))
        elif (text := running.stop_texts.find(produced)) is not None:
            self._finish(row, running, Finished(produced, running.cached_tokens, "stop", matched=text))

    def _choose(self, running: RunningRequest, logits: torch.Tensor) -> tuple[int, bool]:
        """The row's next token, and whether its grammar is complete with it."""
        steered = logits if running.steer is None else running.steer(logits, running.produced)
        allowed = steered if running.constraint is None else running.constraint.mask(steered)
        token = running.sampler.choose(allowed)
        running.produced.append(token)
        return token, running.constraint is not None and running.constraint.accept(token)

    def _finish(self, row: int, running: RunningRequest, finished: Finished) -> None:
        self._release(row)
        running.pending.done.set_result(finished)

    def _release(self, row: int) -> None:
        with self._changed:
            self._running[row] = None
        self._cache.release(row)
