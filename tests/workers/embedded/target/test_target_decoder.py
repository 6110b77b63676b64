"""The decoder gives transformers' answers; an answer has the same bits beside any others; how tokens are chosen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config

from workers.embedded.target.attention import KVCache, Prompt
from workers.embedded.target.decoder import Decoder
from workers.embedded.target.sampling import Sampler

ROWS = 16
VOCABULARY = 49152
CLEAR = 1e-2  # between the two highest logits


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """A decoder sets torch's threads as it goes; each test begins with all of them."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def small_model(folder: Path, family: str) -> Path:
    sizes: dict[str, Any] = {
        "vocab_size": 500, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024,
        "initializer_range": 0.2, "eos_token_id": [2, 7],
    }  # fmt: skip
    config = {"llama": LlamaConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}[family]
    torch.manual_seed(5)
    AutoModelForCausalLM.from_config(config(**sizes)).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_greedy_tokens_are_those_of_transformers(family: str, tmp_path: Path) -> None:
    """Under a bias, and wherever transformers' two highest logits are not close; the cache grows on the way."""
    ids = torch.randint(500, (250,), generator=torch.Generator().manual_seed(3)).tolist()
    folder, clear = small_model(tmp_path, family), 0
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
def test_a_row_has_the_same_bits_whatever_its_neighbours_and_its_place(dtype: torch.dtype, tmp_path: Path) -> None:
    # Given every matrix as in SmolLM2-135M, so that the same kernels run, but two layers instead of thirty
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=576, intermediate_size=1536, num_hidden_layers=2, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=2048, rope_theta=100000.0, tie_word_embeddings=True,
        initializer_range=0.1, eos_token_id=2,
    )  # fmt: skip
    torch.manual_seed(5)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    decoder, draw = Decoder(tmp_path, dtype), torch.Generator().manual_seed(11)
    assert decoder.calibrate(ROWS) == ROWS, "this machine cannot step several rows exactly"
    # and each prompt's next logits when it is alone, in row 0
    lengths = (1, 7, 180, 255, 256, 257, 400, 511, 512, 513, 700)
    prompts = [decoder.prefill(torch.randint(VOCABULARY, (n,), generator=draw).tolist()) for n in lengths]
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


@pytest.mark.parametrize(("mixes", "rows"), [(True, 1), (False, ROWS)])
def test_on_a_machine_that_mixes_rows_one_is_answered_at_a_time(mixes: bool, rows: int, tmp_path: Path) -> None:
    decoder: Any = Decoder(small_model(tmp_path, "llama"), torch.float32)
    exact = decoder._head

    def inexact(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = exact(x).clone()
        if mixes and len(x) > 1:
            result[len(x) // 2 :] *= 1.5
        return result

    decoder._head = inexact
    assert decoder.calibrate(ROWS) == rows


def test_greedy_takes_the_lowest_of_equal_tokens() -> None:
    draw, sampler = torch.Generator().manual_seed(0), Sampler(0.0, 1.0, None)
    for size in (5, 1000, 49152, 151_936) * 20:
        logits, equal = torch.zeros(size), torch.randint(size, (7,), generator=draw)
        logits[equal] = 3.5
        assert sampler.choose(logits) == int(equal.min())


@pytest.mark.parametrize(("top_p", "reached"), [(1.0, {0, 1, 2, 3}), (0.79, {1, 3}), (0.81, {1, 2, 3}), (0.01, {1})])
def test_top_p_leaves_only_what_it_says(top_p: float, reached: set[int]) -> None:
    sampler, logits = Sampler(1.0, top_p, 1), torch.log(torch.tensor([0.05, 0.5, 0.15, 0.3]))
    assert {sampler.choose(logits) for _ in range(300)} == reached
