"""The connections of this process to its target servers: kept between evaluations, served by a thread of their own.

Evaluations run in threads and come and go; what they have in common is the server.  One event loop for all of them
keeps hundreds of requests in flight, and is never held up by what a thread does with its answers.

The one client of SGLang's /generate: SGLang on a GPU and the embedded server answer it alike.

Many single requests at once, because a batched body answers only when its slowest item ends.  A client with a hundred
connections spends its time on them, so it is one that finds a free connection without looking at all others.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Literal

import aiohttp
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_exponential

from tasks.gpu.server_stats import TRAFFIC
from tasks.message import Shape, shape_error, shown

KEPT_S = 3.0  # an idle connection; servers close theirs after five seconds
CLOSE_S = 1.0
SESSIONS = 8  # a server that was started again has another address


class Connections:
    """Sessions by address and key; `session` is for coroutines of `loop` alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sessions: dict[tuple[str, str | None], aiohttp.ClientSession] = {}

    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop, started when it is first asked for; it ends with the process."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="connections", daemon=True).start()
                atexit.register(self._close)
            return self._loop

    async def session(self, base_url: str, api_key: str | None) -> aiohttp.ClientSession:
        """The session for a server; the ones that were used the longest ago are closed."""
        found = self._sessions.pop((base_url, api_key), None) or aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_S),
            # A proxy of the environment is meant for the world outside, not for a server beside us.
            trust_env=False,
        )
        self._sessions[base_url, api_key] = found
        while len(self._sessions) > SESSIONS:
            await self._sessions.pop(next(iter(self._sessions))).close()
        return found

    def _close(self) -> None:
        """Leave nothing open behind, as aiohttp asks; a process that ends does not wait for a server."""

        async def close() -> None:
            for session in self._sessions.values():
                await session.close()

        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(close(), self.loop()).result(CLOSE_S)


CONNECTIONS = Connections()  # of this process

# The class that adds deltas[labels] inside the server, pickled by reference: protocol 4, GLOBAL, two names, STOP.
_CLASS = b"\x80\x04cwhetstone_steering.processor\nClusterBias\n."
REPLY: Shape = {
    "text": str,
    "output_ids": [int],
    "meta_info": {"finish_reason": {"type": str}, "prompt_tokens": int, "cached_tokens": int},
}
PROCESSOR = json.dumps({"callable": _CLASS.hex()})


class TargetRefused(RuntimeError):
    """The server understood and declined, or does not speak /generate. Asking again would not help."""


class TargetDown(RuntimeError):
    """The server could not be reached, or broke off, for as long as we were to try."""


@dataclass(frozen=True)
class GenerateRequest:
    """One prompt and how to answer it. `deltas` (one a cluster of `clustering`) come both or not at all.

    Zero deltas travel as deltas: the unsteered individual takes the same path as any other.
    Raises: ValueError when only one of deltas and clustering is given.
    """

    input_ids: tuple[int, ...]
    max_new_tokens: int
    temperature: float
    top_p: float
    seed: int  # sent only when temperature > 0
    stop_token_ids: tuple[int, ...]
    rid: str = ""  # empty: the server names it
    deltas: tuple[float, ...] | None = None
    clustering: str | None = None

    def __post_init__(self) -> None:
        if (self.deltas is None) != (self.clustering is None):
            raise ValueError("deltas and clustering go together")


@dataclass(frozen=True)
class Generated:
    """An answer. `output_ids`, `completion_tokens` and `text` are without the stop token that may have ended it."""

    text: str
    output_ids: tuple[int, ...]
    finish: Literal["stop", "length"]
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


@dataclass(frozen=True)
class TargetClient:
    """A server at `base_url`. `timeout_s` bounds one try; no new try of a request begins after `retry_s` seconds.

    The retries bridge a hiccup, not a restart: whoever owns the server should soon learn that it is down.
    """

    base_url: str
    timeout_s: float
    concurrency: int
    api_key: str | None = field(default=None, repr=False)
    retry_s: float = 5.0

    def generate_many(self, requests: Sequence[GenerateRequest], on_answer: Callable[[int, Generated], None]) -> None:
        """Answer all requests, at most `concurrency` at once; `on_answer(index, answer)` as each one arrives.

        Answers come in any order and are called for in this thread.  The first error ends the rest.
        Raises: TargetRefused on HTTP 4xx, at once. TargetDown after retries. Whatever `on_answer` raises.
        """
        answers: SimpleQueue[tuple[int, Generated] | None] = SimpleQueue()
        asking = asyncio.run_coroutine_threadsafe(self._all(requests, answers.put), CONNECTIONS.loop())
        asking.add_done_callback(lambda _: answers.put(None))
        try:
            while (found := answers.get()) is not None:
                on_answer(*found)
        finally:
            asking.cancel()
        try:
            asking.result()
        except BaseExceptionGroup as group:
            # One cause is what a caller can act upon; the others are mostly its echoes.
            raise group.exceptions[0] from None

    async def _all(
        self, requests: Sequence[GenerateRequest], answered: Callable[[tuple[int, Generated]], None]
    ) -> None:
        free = asyncio.Semaphore(self.concurrency)
        http = await CONNECTIONS.session(self.base_url, self.api_key)

        async def one(index: int, request: GenerateRequest) -> None:
            async with free:
                with TRAFFIC.request():
                    answer = await self._persistent(http, request)
            TRAFFIC.answered(self.base_url, answer.completion_tokens)
            answered((index, answer))

        async with asyncio.TaskGroup() as group:
            for index, request in enumerate(requests):
                group.create_task(one(index, request))

    async def _persistent(self, http: aiohttp.ClientSession, request: GenerateRequest) -> Generated:
        tries = AsyncRetrying(
            retry=retry_if_exception_type(TargetDown),
            stop=stop_after_delay(self.retry_s),
            wait=wait_exponential(multiplier=0.2, max=5),
            reraise=True,
        )
        async for attempt in tries:
            with attempt:
                # A server may still hold the broken try under its id, and refuses a second one of that name.
                number = attempt.retry_state.attempt_number
                return await self._once(
                    http, request, f"{request.rid}-{number}" if request.rid and number > 1 else request.rid
                )
        raise AssertionError("tenacity either returns or raises")

    async def _once(self, http: aiohttp.ClientSession, request: GenerateRequest, rid: str) -> Generated:
        try:
            return await self._asked(http, request, rid)
        except TargetDown:
            TRAFFIC.doubt(self.base_url)
            raise

    async def _asked(self, http: aiohttp.ClientSession, request: GenerateRequest, rid: str) -> Generated:
        url, timeout = f"{self.base_url}/generate", aiohttp.ClientTimeout(total=self.timeout_s)
        try:
            async with http.post(url, json=body(request, rid), timeout=timeout, allow_redirects=False) as response:
                status, text = response.status, (await response.read()).decode("utf-8", "replace")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise TargetDown(f"{self.base_url}: {type(error).__name__} {error}".rstrip()) from error
        if status >= 500:
            raise TargetDown(f"{self.base_url}: HTTP {status}: {_message(text)}")
        if status != 200:
            raise TargetRefused(f"{self.base_url}: HTTP {status}: {_message(text)}")
        return generated(read_reply(self.base_url, text), request.stop_token_ids)


def body(request: GenerateRequest, rid: str) -> dict[str, Any]:
    """The JSON of one request."""
    sampling: dict[str, Any] = {
        "max_new_tokens": request.max_new_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop_token_ids": list(request.stop_token_ids),
    }
    if request.temperature > 0:
        sampling["sampling_seed"] = request.seed
    asked: dict[str, Any] = {"input_ids": list(request.input_ids), "sampling_params": sampling}
    if rid:
        asked["rid"] = rid
    if request.deltas is not None:
        sampling["custom_params"] = {"clustering": request.clustering, "deltas": list(request.deltas)}
        asked["custom_logit_processor"] = PROCESSOR
    return asked


def read_reply(base_url: str, text: str) -> dict[str, Any]:
    """Raises: TargetRefused when the text is nothing that /generate replies."""
    try:
        reply: dict[str, Any] = json.loads(text)
        reason = shape_error(REPLY, reply)
    except (ValueError, RecursionError) as error:
        reason = f"it is not JSON: {shown(str(error))}"
    if reason:
        raise TargetRefused(f"{base_url} does not answer as /generate does: {reason}")
    return reply


def generated(reply: dict[str, Any], stop_token_ids: Sequence[int]) -> Generated:
    """Read one reply.

    The server counts and returns the stop token; we do neither.  One that came as the very last allowed token is
    reported as `length` by SGLang, and is still the end of the answer.
    Raises: TargetDown when the answer was broken off by the server.
    """
    meta = reply["meta_info"]
    reason = meta["finish_reason"]
    if reason["type"] not in ("stop", "length"):
        raise TargetDown(f"the answer was broken off: {str(reason)[:300]}")
    ids = [int(token) for token in reply["output_ids"]]
    ended = bool(ids) and (ids[-1] in stop_token_ids or (reason["type"] == "stop" and reason.get("matched") == ids[-1]))
    kept = tuple(ids[:-1] if ended else ids)
    return Generated(
        text=str(reply["text"]),
        output_ids=kept,
        finish="stop" if ended or reason["type"] == "stop" else "length",
        prompt_tokens=max(0, meta["prompt_tokens"]),
        completion_tokens=len(kept),
        cached_tokens=max(0, meta["cached_tokens"]),
    )


def _message(text: str) -> str:
    """What the server said, from SGLang's {"error": {"message"}} or else as it came."""
    try:
        return str(json.loads(text)["error"]["message"])[:500]
    except (ValueError, KeyError, TypeError, RecursionError):
        return text[:500]
