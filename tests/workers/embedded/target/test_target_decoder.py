"""The decoder gives transformers' answers; an answer has the same bits beside any others; how tokens are chosen."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from workers.embedded.target.attention import KVCache, PrefixCache, Prompt
from workers.embedded.target.decoder import Decoder, choose_threads
from workers.embedded.target.engine import Engine
from workers.embedded.target.protocol import Finished, GenerationRequest, SamplingParams
from workers.embedded.target.sampling import Sampler, steer_by_deltas
from workers.steering.request import Steering

ROWS = 16
VOCABULARY, END = 49152, 2
WAIT_S = 120
CLEAR = 1e-2  # between the two highest logits
Calibrated = Callable[[torch.dtype], Decoder]


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_greedy_tokens_are_those_of_transformers(family: str, small_model: Callable[[str], Path]) -> None:
    """Under a bias, and wherever transformers' two highest logits are not close; the cache grows on the way."""
    ids = torch.randint(500, (250,), generator=torch.Generator().manual_seed(3)).tolist()
    folder, clear = small_model(family), 0
    decoder = Decoder(folder, torch.float32)
    decoder.calibrate(4)
    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    bias = torch.randn(decoder.vocabulary, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        cache, prefilled = decoder.new_cache(4), decoder.prefill(ids)
        cache.admit(2, prefilled.kv)
        own = prefilled.logits
        for _ in range(16):
            logits = reference(torch.tensor([ids])).logits[0, -1]
            torch.testing.assert_close(own, logits, atol=2e-3, rtol=1e-3)
            best, second = (logits + bias).topk(2).values
            token = int((logits + bias).argmax())
            if best - second > CLEAR:
                assert int((own + bias).argmax()) == token
                clear += 1
            own = decoder.step({2: (token, len(ids))}, cache)[2]
            ids.append(token)
    assert clear >= 12


@torch.inference_mode()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_row_has_the_same_bits_whatever_its_neighbours_and_its_place(
    calibrated: Calibrated, dtype: torch.dtype
) -> None:
    decoder, draw = calibrated(dtype), torch.Generator().manual_seed(11)
    lengths = (1, 7, 180, 255, 256, 257, 400, 511, 512, 513, 700)
    prompts = [decoder.prefill(torch.randint(VOCABULARY, (n,), generator=draw).tolist()) for n in lengths]
    # Given each prompt's next logits when it is alone, in row 0
    alone = [_together(decoder, decoder.new_cache(ROWS), {0: prompt})[0] for prompt in prompts]
    # When they come beside random others and in random rows, into rows that held others before
    cache = decoder.new_cache(ROWS)
    for _ in range(4):
        order = torch.randperm(len(prompts), generator=draw).tolist()[: int(torch.randint(1, 12, (1,), generator=draw))]
        placed = dict(zip(torch.randperm(ROWS, generator=draw).tolist(), order, strict=False))
        found = _together(decoder, cache, {row: prompts[number] for row, number in placed.items()})
        # Then not a bit is different
        for row, number in placed.items():
            assert torch.equal(found[row], alone[number]), f"prompt of {lengths[number]} in row {row} beside {placed}"


def _together(decoder: Decoder, cache: KVCache, prompts: dict[int, Prompt]) -> torch.Tensor:
    for row, prompt in prompts.items():
        cache.admit(row, prompt.kv)
    entering = {row: (int(prompt.logits.argmax()), prompt.kv.shape[3]) for row, prompt in prompts.items()}
    return decoder.step(entering, cache)


def test_a_long_row_takes_memory_for_itself_alone() -> None:
    cache = KVCache(layers=1, rows=16, kv_heads=2, d=8, dtype=torch.float32)
    cache.admit(3, torch.zeros(2, 1, 2, 4000, 8))
    for row in range(3):
        cache.admit(row, torch.zeros(2, 1, 2, 60, 8))
    kept = cache._block.nbytes + sum(own.nbytes for own in cache._long.values())
    assert kept < 2 * (4000 + 16 * 64) * 2 * 2 * 8 * 4


@pytest.mark.parametrize(("mixes", "rows", "threads"), [("rows", 1, 1), ("threads", ROWS, 1), ("", ROWS, 2)])
def test_a_layer_that_mixes_rows_or_threads_is_detected(
    mixes: str, rows: int, threads: int, small_model: Callable[[str], Path]
) -> None:
    torch.set_num_threads(2)
    decoder: Any = Decoder(small_model("llama"), torch.float32)
    exact = decoder._head

    def inexact(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = exact(x).clone()
        if mixes == "rows" and len(x) > 1:
            result[len(x) // 2 :] *= 1.5
        if mixes == "threads" and torch.get_num_threads() == 1:
            result *= 1.5
        return result

    decoder._head = inexact
    assert (decoder.calibrate(ROWS), torch.get_num_threads()) == (rows, threads)


def test_one_thread_is_used_while_other_processes_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(2)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    taken = []
    for running in (1, 2, 3, 2, 1, 2):  # own threads included: two while two are used, one while one is
        (tmp_path / "loadavg").write_text(f"0.50 0.40 0.30 {running}/123 4567\n")
        choose_threads(2, tmp_path / "loadavg")
        taken.append(torch.get_num_threads())
    assert taken == [2, 2, 1, 1, 2, 2]


@contextmanager
def running(decoder: Decoder, rows: int = ROWS, kept_bytes: int = 2**30) -> Iterator[Engine]:
    engine = Engine(decoder, rows, PrefixCache(kept_bytes))
    thread = threading.Thread(target=engine.run)
    thread.start()
    try:
        yield engine
    finally:
        engine.close()
        thread.join()


def mixed_request(number: int) -> GenerationRequest:
    """The same for a number: prompts of all lengths, greedy and sampled, steered and not, short and longer answers."""
    draw = random.Random(number)
    sampling = SamplingParams(
        max_new_tokens=draw.randint(4, 14),
        temperature=(0.0, 0.8)[number % 2],
        top_p=draw.choice((1.0, 0.9)),
        sampling_seed=number,
    )
    deltas = np.asarray([draw.uniform(-2, 2) for _ in range(5)], dtype=np.float32)
    steering = Steering("ab" * 16, (np.arange(VOCABULARY) % 5).astype(np.uint8), deltas)
    steer = partial(steer_by_deltas, steering, VOCABULARY) if number % 3 else None
    ids = tuple(draw.randrange(VOCABULARY) for _ in range(draw.choice((3, 60, 200, 250, 300, 505, 600))))
    return GenerationRequest(ids, sampling, frozenset({END}), steer)


def answered(engine: Engine, request: GenerationRequest) -> GenerationRequest:
    engine.submit(request)
    return request


def test_an_answer_never_depends_on_other_requests(calibrated: Calibrated) -> None:
    draw, count, decoder = random.Random(23), 6, calibrated(torch.bfloat16)
    with running(decoder) as engine:
        # Given the answers of requests that were alone, none of their prompts cached before
        alone = [answered(engine, mixed_request(n)).done.result(WAIT_S).output_ids for n in range(count)]
        assert len(set(alone)) == count
    for cached in (True, False):
        with running(decoder, kept_bytes=2**30 if cached else 0) as engine:
            # When they come all at once, most of them twice, in random order, then every answer is the one that it was
            order = draw.sample([*range(count), *range(count - 2)], 2 * count - 2)
            jobs = [(number, answered(engine, mixed_request(number))) for number in order]
            assert [job.done.result(WAIT_S).output_ids for _, job in jobs] == [alone[number] for number, _ in jobs]


def test_a_prompt_larger_than_the_cache_leaves_the_others_in_it(calibrated: Calibrated) -> None:
    short, one = SamplingParams(max_new_tokens=1, temperature=0.0), tuple(range(17, 26))
    with running(calibrated(torch.bfloat16), kept_bytes=2**19) as engine:
        asked = [answered(engine, GenerationRequest(ids, short, frozenset())) for ids in (one, one * 80, one)]
        assert [job.done.result(WAIT_S).cached_tokens for job in asked] == [0, 0, len(one)]


def test_an_aborted_request_gives_its_row_to_the_next(calibrated: Calibrated) -> None:
    endless = SamplingParams(max_new_tokens=1500, temperature=0.0)
    with running(calibrated(torch.bfloat16), rows=1) as engine:
        first, waiting = (answered(engine, GenerationRequest((1, 2, 3), endless, frozenset())) for _ in "ab")
        next_one = answered(engine, mixed_request(0))
        waiting.abort.set()
        first.abort.set()
        assert first.done.result(WAIT_S).reason == "abort"
        assert waiting.done.result(WAIT_S) == Finished((), 0, "abort")
        assert next_one.done.result(WAIT_S).reason in ("stop", "length")
        assert engine.in_flight == (0, 0)


def test_greedy_takes_the_lowest_of_equal_tokens() -> None:
    draw, sampler = torch.Generator().manual_seed(0), Sampler(0.0, 1.0, None)
    for size in (5, 1000, 49152, 151_936):
        for _ in range(20):
            logits = torch.zeros(size)
            equal = torch.randint(size, (7,), generator=draw)
            logits[equal] = 3.5
            assert sampler.choose(logits) == int(equal.min())


@pytest.mark.parametrize(("top_p", "reached"), [(1.0, {0, 1, 2, 3}), (0.79, {1, 3}), (0.81, {1, 2, 3}), (0.01, {1})])
def test_top_p_leaves_only_what_it_says(top_p: float, reached: set[int]) -> None:
    sampler, logits = Sampler(1.0, top_p, 1), torch.log(torch.tensor([0.05, 0.5, 0.15, 0.3]))
    assert {sampler.choose(logits) for _ in range(300)} == reached
