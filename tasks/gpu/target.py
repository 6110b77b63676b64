"""The client for SGLang's `/generate`: SGLang on a GPU and the embedded server answer it alike.

It sends many single requests at once, because a batched body is answered only when its slowest item has ended.  All
tasks of a gpu worker share one queue, so that the individual that began first ends first, and the last answers of one
individual run beside the first of the next.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Annotated, Any, Literal, NotRequired

import aiohttp
from pydantic import FailFast
from typing_extensions import TypedDict

from tasks.common.files import unix_path
from tasks.common.http import CONNECT_S, KEPT_S, OK, http_url
from tasks.common.logs import redacted
from tasks.common.validation import InvalidData, parse_json, reply_bytes
from tasks.gpu.model_files import reference
from tasks.records import Sampling

PROCESSOR = reference("whetstone_steering.processor", "ClusterBias")  # adds deltas[labels] inside the server
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0  # between two tries of a request
RATE_S = 10.0  # the window of `ServerStats.tokens_a_second`


class FinishReason(TypedDict):
    type: str
    matched: NotRequired[Any]


class Meta(TypedDict):
    finish_reason: FinishReason
    cached_tokens: int
    ends_unsteered: NotRequired[bool]  # the embedded server alone


class GenerateReply(TypedDict):
    text: str
    output_ids: Annotated[list[int], FailFast()]
    meta_info: Meta


class TargetDown(RuntimeError):
    """It could not be reached, or broke off its answer, in every try."""


@dataclass(frozen=True)
class GenerateRequest:
    """One prompt and how to answer it.

    The answer ends at the first of the texts `stop`, and is without it.  `regex` or `json_schema` (JSON) is what the
    whole answer matches, unless it is cut; `stop_token_ids` are not sent then.
    """

    input_ids: tuple[int, ...]
    max_new_tokens: int
    temperature: float
    top_p: float
    seed: int  # sent only when temperature > 0
    stop_token_ids: tuple[int, ...]
    deltas: tuple[float, ...] | None = None  # one for each cluster of `clustering`; zeros are sent too
    clustering: str | None = None
    end_after_sentence: bool = False  # as `tasks.records.Sampling` has it
    processor: str = ""  # in place of deltas: the reference of a class that the server has loaded from a file
    stop: tuple[str, ...] = ()
    regex: str | None = None
    json_schema: str | None = None

    @classmethod
    def of(cls, prompt: tuple[int, ...], sampling: Sampling, stops: tuple[int, ...], **more: Any) -> GenerateRequest:
        """One that samples as a run does; `more` are fields."""
        return cls(prompt, sampling.max_new_tokens, sampling.temperature, sampling.top_p, sampling.seed, stops, **more)


@dataclass(frozen=True)
class Generated:
    """An answer, without the stop token that may have ended it."""

    text: str
    output_ids: tuple[int, ...]
    finish: Literal["stop", "length"]
    completion_tokens: int
    cached_tokens: int
    stop_text: str = ""  # the stop text that ended it: `text` is without it, and the tokens are with it
    ends_unsteered: bool | None = None  # whether it would have ended there without deltas; None: it is not known


class RequestQueue:
    """First come, first served, list by list.  `run` is for one event loop; the figures are for any thread."""

    def __init__(self) -> None:
        self.batches = 0  # lists that have a request that waits or is in flight
        self.waiting = 0  # those of which not all requests are sent
        self.in_flight = 0  # requests
        self.on_room: Callable[[], object] = lambda: None  # called in the loop when no request waits any more
        self._turn = asyncio.Lock()  # of the list whose requests are sent
        self._ended = asyncio.Event()

    async def run(self, count: int, limit: int, send: Callable[[int], Coroutine[Any, Any, None]]) -> None:
        """Await send(0), send(1), ..., each begun while fewer than `limit` are in flight; an error cancels the rest."""
        self.batches, self.waiting = self.batches + 1, self.waiting + 1
        try:
            async with asyncio.TaskGroup() as group:
                try:
                    async with self._turn:
                        for number in range(count):
                            while self.in_flight >= limit:
                                self._ended.clear()
                                await self._ended.wait()
                            self.in_flight += 1
                            group.create_task(send(number)).add_done_callback(self._end)
                finally:
                    self.waiting -= 1
                    if not self.waiting:
                        self.on_room()
        finally:
            self.batches -= 1

    def _end(self, _: object) -> None:
        self.in_flight -= 1
        self._ended.set()


class ServerStats:
    """When each server, named by its base URL, last answered, and generated tokens a second.  For several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: deque[tuple[float, int]] = deque()  # when, and how many tokens
        self._alive: dict[str, float] = {}

    def answered(self, url: str, tokens: int) -> None:
        with self._lock:
            self._answers.append((time.monotonic(), tokens))
        self.alive(url)

    def alive(self, url: str) -> None:
        self._alive[url] = time.monotonic()

    def failed(self, url: str) -> None:
        """The server did not answer: its earlier answers no longer count."""
        self._alive.pop(url, None)

    def was_alive(self, url: str, seconds: float) -> bool:
        """Whether a server has answered in the last so many seconds, and has not failed to answer since."""
        return time.monotonic() - self._alive.get(url, float("-inf")) <= seconds

    def tokens_a_second(self) -> float:
        """Over the answers of the last `RATE_S` seconds."""
        with self._lock:
            while self._answers and self._answers[0][0] < time.monotonic() - RATE_S:
                self._answers.popleft()
            return sum(tokens for _, tokens in self._answers) / RATE_S


REQUESTS, SERVER_STATS = RequestQueue(), ServerStats()  # of this process
_LOOPS: list[asyncio.AbstractEventLoop] = []  # of this process: none, or one
_LOOPS_LOCK = threading.Lock()


def _loop() -> asyncio.AbstractEventLoop:
    """The loop, in a thread of its own, of all requests of this process; a task does not delay it with its answers."""
    with _LOOPS_LOCK:
        if not _LOOPS:
            _LOOPS.append(asyncio.new_event_loop())
            threading.Thread(target=_LOOPS[0].run_forever, name="connections", daemon=True).start()
        return _LOOPS[0]


@dataclass(frozen=True)
class TargetClient:
    """A server at `base_url`."""

    base_url: str
    timeout_s: float  # of one try
    concurrency: int  # requests that this process has in flight, of all its clients together
    api_key: str | None = field(default=None, repr=False)
    retry_s: float = 5.0  # no new try begins later: it covers an interruption and not a restart

    def generate_many(self, requests: Sequence[GenerateRequest], on_answer: Callable[[int, Generated], None]) -> None:
        """Answer all requests; `on_answer(index, answer)` in this thread as each arrives; an error cancels the rest."""
        answers: SimpleQueue[tuple[int, Generated] | None] = SimpleQueue()
        sending = asyncio.run_coroutine_threadsafe(self._all(requests, answers.put), _loop())
        sending.add_done_callback(lambda _: answers.put(None))
        try:
            while (item := answers.get()) is not None:
                on_answer(*item)
        finally:
            sending.cancel()
        try:
            sending.result()
        except BaseExceptionGroup as group:
            # The first error is the cause; the others mostly follow from it.
            raise group.exceptions[0] from None

    async def _all(
        self, requests: Sequence[GenerateRequest], answered: Callable[[tuple[int, Generated]], None]
    ) -> None:
        path = unix_path(self.base_url)
        options: dict[str, Any] = {"limit": 0, "keepalive_timeout": KEPT_S}
        http = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {self.api_key}"} if self.api_key else {},
            connector=aiohttp.UnixConnector(path, **options) if path else aiohttp.TCPConnector(**options),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

        async def answer(index: int) -> None:
            found = await self._ask(http, requests[index])
            SERVER_STATS.answered(self.base_url, found.completion_tokens)
            answered((index, found))

        async with http:
            await REQUESTS.run(len(requests), self.concurrency, answer)

    async def _ask(self, http: aiohttp.ClientSession, request: GenerateRequest) -> Generated:
        last, pause = time.monotonic() + self.retry_s, FIRST_PAUSE_S
        while True:
            try:
                return await self._post(http, request)
            except TargetDown:
                SERVER_STATS.failed(self.base_url)
                if time.monotonic() > last:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    async def _post(self, http: aiohttp.ClientSession, request: GenerateRequest) -> Generated:
        timeout = aiohttp.ClientTimeout(total=self.timeout_s, sock_connect=min(CONNECT_S, self.timeout_s))
        body, url = request_body(request), http_url(self.base_url, "/generate")
        try:
            async with http.post(url, json=body, timeout=timeout, allow_redirects=False) as reply:
                text = await _read(reply, reply_bytes(request.max_new_tokens))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TargetDown(f"{self.base_url}: {type(error).__name__} {error}"[:300]) from error
        except ValueError as error:  # a reply that is too large: a retry would not help
            raise RuntimeError(f"{self.base_url}: {error}") from error
        if reply.status != OK:
            failed = TargetDown if reply.status >= 500 else RuntimeError
            raise failed(f"{self.base_url}: HTTP {reply.status}: {_message(reply, text)}")
        try:
            found = parse_json(GenerateReply, text)
        except InvalidData as error:
            raise RuntimeError(f"{self.base_url} does not answer as /generate does: {error}") from None
        return to_generated(found, request.stop_token_ids, request.stop)


def request_body(request: GenerateRequest) -> dict[str, Any]:
    sampling: dict[str, Any] = {
        "max_new_tokens": request.max_new_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
    }
    # A grammar says itself where its answer ends.  To xgrammar a control token that is not the model's own end is text,
    # such as "<|endoftext|>", which a free line may hold: as a stop token it would cut the answer there.
    if request.stop_token_ids and request.regex is None and request.json_schema is None:
        sampling["stop_token_ids"] = list(request.stop_token_ids)
    if request.temperature > 0:
        sampling["sampling_seed"] = request.seed
    grammar = {"stop": list(request.stop) or None, "regex": request.regex, "json_schema": request.json_schema}
    sampling |= {name: value for name, value in grammar.items() if value is not None}
    payload: dict[str, Any] = {"input_ids": list(request.input_ids), "sampling_params": sampling}
    if request.deltas is not None:
        end = {"end": "sentence"} if request.end_after_sentence else {}
        sampling["custom_params"] = {"clustering": request.clustering, "deltas": list(request.deltas), **end}
        payload["custom_logit_processor"] = PROCESSOR
    elif request.processor:
        sampling["custom_params"] = {}  # without any, SGLang shows the processor no answer
        payload["custom_logit_processor"] = request.processor
    return payload


def to_generated(reply: GenerateReply, stop_token_ids: Sequence[int], stop: Sequence[str] = ()) -> Generated:
    """Read one reply.  SGLang reports `length` when the stop token is the last token allowed; here that is `stop`."""
    meta = reply["meta_info"]
    reason = meta["finish_reason"]
    if reason["type"] not in ("stop", "length"):
        raise TargetDown(f"the answer was broken off: {str(reason)[:300]}")
    ids = reply["output_ids"]
    ended = bool(ids) and (ids[-1] in stop_token_ids or (reason["type"] == "stop" and reason.get("matched") == ids[-1]))
    answer_ids = tuple(ids[:-1] if ended else ids)
    matched = reason.get("matched")
    return Generated(
        text=reply["text"],
        output_ids=answer_ids,
        finish="stop" if ended or reason["type"] == "stop" else "length",
        completion_tokens=len(answer_ids),
        cached_tokens=max(0, meta["cached_tokens"]),
        stop_text=matched if isinstance(matched, str) and reason["type"] == "stop" and matched in stop else "",
        ends_unsteered=meta.get("ends_unsteered"),
    )


def _message(reply: aiohttp.ClientResponse, text: str) -> str:
    """SGLang's {"error": {"message"}}, where the reply redirects, or the text itself."""
    if 300 <= reply.status < 400:
        return f"redirects to {redacted(reply.headers.get('location', ''))[:200]}, which is not followed"
    try:
        return str(json.loads(text)["error"]["message"])[:500]
    except (ValueError, KeyError, TypeError):
        return text[:500]


async def _read(response: aiohttp.ClientResponse, most: int) -> str:
    body = bytearray()
    while part := await response.content.readany():
        body += part
        if len(body) > most:
            response.close()  # the connection has more of this reply
            raise ValueError(f"the reply has more than {most:,} bytes, the most for this request")
    return body.decode("utf-8", "replace")
