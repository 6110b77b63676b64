"""The engine answers each request as if it were alone."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from workers.embedded.target.attention import PrefixCache
from workers.embedded.target.decoder import Decoder
from workers.embedded.target.engine import Engine
from workers.embedded.target.protocol import Finished, GenerationRequest, SamplingParams
from workers.steering.request import Steering

VOCABULARY = 49152
WAIT_S = 120
Calibrated = Callable[[torch.dtype], Decoder]


@contextmanager
def running(decoder: Decoder, rows: int = 16, kept_bytes: int = 2**30) -> Iterator[Engine]:
    engine = Engine(decoder, rows, PrefixCache(kept_bytes))
    thread = threading.Thread(target=engine.run)
    thread.start()
    try:
        yield engine
    finally:
        engine.close()
        thread.join()


def _mixed_requests(count: int) -> list[GenerationRequest]:
    """Prompts of all lengths, greedy and sampled, steered and not, short and longer answers."""
    draw = random.Random(17)
    labels = (np.arange(VOCABULARY) % 5).astype(np.uint8)
    made = []
    for number in range(count):
        length = draw.choice((3, 60, 200, 250, 300, 505, 600))
        sampling = SamplingParams(
            max_new_tokens=draw.randint(4, 14),
            temperature=draw.choice((0.0, 0.0, 0.8)),
            top_p=draw.choice((1.0, 0.9)),
            sampling_seed=number,
        )
        deltas = np.asarray([draw.uniform(-2, 2) for _ in range(5)], dtype=np.float32)
        steering = draw.choice((None, Steering("ab" * 16, labels, deltas)))
        ids = tuple(draw.randrange(VOCABULARY) for _ in range(length))
        made.append(GenerationRequest(str(number), ids, sampling, frozenset({2}), steering))
    return made


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    ("count", "rounds"),
    [
        pytest.param(6, (True, False), id="6"),
        pytest.param(10, (True, False, True), id="10", marks=pytest.mark.long),
    ],
)
def test_an_answer_never_depends_on_other_requests(
    calibrated: Calibrated, dtype: torch.dtype, count: int, rounds: tuple[bool, ...]
) -> None:
    requests = _mixed_requests(count)
    draw = random.Random(23)
    with running(calibrated(dtype)) as engine:
        # Given: the answers of requests that were alone, none of their prompts cached before.
        alone = [engine.submit(request).done.result(WAIT_S).output_ids for request in requests]
        assert len(set(alone)) == len(requests)
    for cached in rounds:
        with running(calibrated(dtype), kept_bytes=2**30 if cached else 0) as engine:
            # When: they come all at once, most of them twice, in random order, with cached and unknown prompts.
            order = [*range(count), *draw.sample(range(count), count - 2)]
            draw.shuffle(order)
            jobs = [(number, engine.submit(requests[number])) for number in order]

            # Then: every answer is the one that it was.
            for number, job in jobs:
                assert job.done.result(WAIT_S).output_ids == alone[number]


def _endless(rid: str) -> GenerationRequest:
    return GenerationRequest(rid, (1, 2, 3), SamplingParams(max_new_tokens=1500, temperature=0.0), frozenset(), None)


def test_an_aborted_request_gives_its_row_to_the_next(calibrated: Calibrated) -> None:
    with running(calibrated(torch.bfloat16), rows=1) as engine:
        endless, waiting = engine.submit(_endless("a")), engine.submit(_endless("b"))
        next_one = engine.submit(_mixed_requests(1)[0])
        waiting.abort.set()
        endless.abort.set()
        assert endless.done.result(WAIT_S).reason == "abort"
        assert waiting.done.result(WAIT_S) == Finished((), 0, "abort")
        assert next_one.done.result(WAIT_S).reason in ("stop", "length")
        assert engine.in_flight == (0, 0)


def test_a_stop_token_is_reported_and_is_no_part_of_the_answer(calibrated: Calibrated) -> None:
    # Given: a bias that makes token 2 win every time.
    labels = np.zeros(VOCABULARY, dtype=np.uint8)
    labels[2] = 1
    steering = Steering("cd" * 16, labels, np.asarray([0, 900], dtype=np.float32))

    def ask(engine: Engine, **sampling: int) -> Finished:
        chosen = SamplingParams(temperature=0.0, **sampling)
        return engine.submit(GenerationRequest("x", (9, 8), chosen, frozenset({2}), steering)).done.result(WAIT_S)

    with running(calibrated(torch.bfloat16)) as engine:
        at_once = ask(engine, max_new_tokens=8)
        assert (at_once.output_ids, at_once.reason, at_once.matched, at_once.text_ids) == ((2,), "stop", 2, ())
