"""The decoder gives transformers' answers, and gives each row the same bits beside any others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from workers.embedded.target.attention import KVCache, Prompt
from workers.embedded.target.decoder import Decoder

ROWS = 16
CLEAR = 1e-2  # between the two highest logits


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


def _clear_agreements(folder: Path, prompt: list[int], new: int) -> int:
    """Follow a plain transformers loop under a bias; returns how many of its tokens were clear.

    The decoder must choose the same token wherever it is clear.

    Where its two highest logits are close either may win in other arithmetic, and its choice is followed.
    """
    decoder = Decoder(folder, torch.float32)
    decoder.calibrate(4)
    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    bias = torch.randn(decoder.vocabulary, generator=torch.Generator().manual_seed(1))
    cache = decoder.new_cache(4)
    prefilled = decoder.prefill(prompt)
    cache.admit(2, prefilled.kv)
    ids, own, clear = list(prompt), prefilled.logits, 0
    for _ in range(new):
        logits = reference(torch.tensor([ids])).logits[0, -1]
        torch.testing.assert_close(own, logits, atol=2e-3, rtol=1e-3)
        best, second = (logits + bias).topk(2).values
        token = int((logits + bias).argmax())
        if best - second > CLEAR:
            assert int((own + bias).argmax()) == token
            clear += 1
        own = decoder.step({2: (token, len(ids))}, cache)[2]
        ids.append(token)
    return clear


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_greedy_tokens_are_those_of_transformers(family: str, small_model: Callable[[str], Path]) -> None:
    # The cache grows on the way.
    prompt = torch.randint(500, (250,), generator=torch.Generator().manual_seed(3)).tolist()
    assert _clear_agreements(small_model(family), prompt, 16) >= 12


def test_the_embedded_model_answers_as_in_transformers(model_folder: Path) -> None:
    prompt = torch.randint(17, 49152, (40,), generator=torch.Generator().manual_seed(6)).tolist()
    assert _clear_agreements(model_folder, prompt, 6) >= 4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("rounds", [4, pytest.param(12, marks=pytest.mark.long)])
def test_a_row_has_the_same_bits_whatever_its_neighbours_and_its_place(
    calibrated: Callable[[torch.dtype], Decoder], dtype: torch.dtype, rounds: int
) -> None:
    decoder = calibrated(dtype)
    draw = torch.Generator().manual_seed(11)
    lengths = (1, 7, 180, 255, 256, 257, 400, 511, 512, 513, 700)
    prompts = [decoder.prefill(torch.randint(49152, (n,), generator=draw).tolist()) for n in lengths]

    # Given: each prompt's next logits when it is alone, in row 0.
    alone = [_together(decoder, decoder.new_cache(ROWS), {0: prompt})[0] for prompt in prompts]

    # When: they come beside random others and in random rows, into rows that held others before.
    cache = decoder.new_cache(ROWS)
    for _ in range(rounds):
        order = torch.randperm(len(prompts), generator=draw).tolist()[: int(torch.randint(1, 12, (1,), generator=draw))]
        places = torch.randperm(ROWS, generator=draw).tolist()
        placed = dict(zip(places, order, strict=False))
        found = _together(decoder, cache, {row: prompts[number] for row, number in placed.items()})

        # Then: not a bit is different.
        for row, number in placed.items():
            assert torch.equal(found[row], alone[number]), f"prompt of {lengths[number]} in row {row} beside {placed}"


def test_a_step_has_no_more_rows_than_the_cache(calibrated: Callable[[torch.dtype], Decoder]) -> None:
    decoder = calibrated(torch.bfloat16)
    prompt = decoder.prefill(list(range(5, 45)))
    alone = _together(decoder, decoder.new_cache(ROWS), {0: prompt})[0]
    found = _together(decoder, decoder.new_cache(2), {0: prompt})
    assert len(found) == 2
    torch.testing.assert_close(found[0], alone, atol=0.1, rtol=0.05)


def test_a_long_row_takes_memory_for_itself_alone() -> None:
    cache = KVCache(layers=1, rows=16, kv_heads=2, d=8, dtype=torch.float32)
    cache.admit(3, torch.zeros(2, 1, 2, 4000, 8))
    for row in range(3):
        cache.admit(row, torch.zeros(2, 1, 2, 60, 8))
    kept = cache._block.nbytes + sum(own.nbytes for own in cache._long.values())
    assert kept < 2 * (4000 + 16 * 64) * 2 * 2 * 8 * 4


def _together(decoder: Decoder, cache: KVCache, prompts: dict[int, Prompt]) -> torch.Tensor:
    for row, prompt in prompts.items():
        cache.admit(row, prompt.kv)
    entering = {row: (int(prompt.logits.argmax()), prompt.kv.shape[3]) for row, prompt in prompts.items()}
    return decoder.step(entering, cache)
