"""Sampling with buffers that stay where they are: the tokens of plain decoding, whatever is dropped meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from tasks.route.adapter import Adapter, decompose
from tasks.route.gradients import Policy
from tasks.route.model import CausalLM, Sampler, draw_by_row, draw_from

SHAPE = {
    "vocab_size": 48, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "initializer_range": 0.3,
}  # fmt: skip
END = frozenset({2, 5, 7, 9, 11, 13})  # so many that rows end at different times


def greedy(logits: Tensor, rows: Tensor, step: int) -> Tensor:
    return logits.argmax(1)


@pytest.fixture(scope="module", params=["qwen", "llama"])
def policy(request: pytest.FixtureRequest) -> Policy:
    torch.manual_seed(0)
    networks = {
        "qwen": lambda: Qwen2ForCausalLM(Qwen2Config(**SHAPE)),  # type: ignore[arg-type]
        "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE)),  # type: ignore[arg-type]
    }
    model = CausalLM(networks[request.param](), END)
    names = [name for name, _ in model.named_modules() if name.rpartition(".")[2] in ("q_proj", "o_proj")]
    adapter = Adapter(model, {name: decompose(model.get_parameter(f"{name}.weight")) for name in names})
    return Policy(model, adapter, Sampler(model, adapter, rows=24), rows_at_once=8)


def plainly(policy: Policy, prompt: tuple[int, ...], knobs: torch.Tensor) -> tuple[int, ...]:
    """The most probable tokens, with the whole text through the model for each."""
    tokens = list(prompt)
    with torch.no_grad(), policy.adapter.active(knobs):
        while len(tokens) - len(prompt) < 60 and not (tokens[-1] in END and len(tokens) > len(prompt)):
            tokens.append(int(policy.model.logits(policy.model.hidden(torch.tensor([tokens]))[0, -1:]).argmax()))
    return tuple(tokens[len(prompt) :])


def drawn_prompts(count: int) -> list[tuple[int, ...]]:
    generator = torch.Generator().manual_seed(3)
    lengths = torch.randint(1, 12, (count,), generator=generator).tolist()
    return [tuple(torch.randint(14, 48, (length,), generator=generator).tolist()) for length in lengths]


def test_each_row_has_the_tokens_of_plain_decoding_under_its_own_knobs(policy: Policy) -> None:
    # Given more rows than go at once, of different lengths, each with knobs of its own
    prompts, adapter = drawn_prompts(40), policy.adapter
    knobs = 0.5 * torch.randn(40, adapter.layout.total, generator=torch.Generator().manual_seed(1))
    # When they are sampled greedily, twice
    found = policy.sampler.sample(prompts, knobs, 60, greedy)
    again = policy.sampler.sample(prompts[::-1], knobs.flip(0), 60, greedy)[::-1]
    # Then each is what it is alone, though rows ended early and were dropped
    assert found == again
    assert found[::7] == [plainly(policy, prompt, own) for prompt, own in zip(prompts[::7], knobs[::7], strict=True)]
    lengths = [len(row) for row in found]
    assert min(lengths) < 5 and max(lengths) > 32


def test_rows_are_drawn_as_often_as_the_model_says(policy: Policy) -> None:
    prompt, zeros = (20, 21), policy.adapter.zeros()
    rows = policy.sampler.sample([prompt] * 2400, zeros, 1, draw_from(torch.Generator().manual_seed(0)))
    with torch.no_grad():
        ids = torch.tensor([prompt])
        exact = policy.model.logits(policy.model.hidden(ids)[0, -1:]).softmax(1)[0]
    counts = torch.bincount(torch.tensor([row[0] for row in rows]), minlength=48) / 2400
    assert (counts - exact).abs().max() < 0.04


def test_a_row_by_its_number_is_the_same_whatever_is_sampled_beside_it(policy: Policy) -> None:
    sampler, adapter, device = policy.sampler, policy.adapter, policy.adapter.device
    assert isinstance(sampler, Sampler)
    prompts, knobs = drawn_prompts(40), adapter.zeros()
    together = sampler.sample(prompts, knobs, 60, draw_by_row(7, range(40), 60, device))
    for numbers in ([39, 5, 22], [22]):
        some = [prompts[number] for number in numbers]
        found = sampler.sample(some, knobs, 60, draw_by_row(7, numbers, 60, device))
        assert found == [together[number] for number in numbers]
    assert together != sampler.sample(prompts, knobs, 60, draw_by_row(8, range(40), 60, device))


def test_a_card_without_memory_ends_the_sampling_and_another_refusal_only_the_graphs(
    policy: Policy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sampler, zeros = policy.sampler, policy.adapter.zeros()
    assert isinstance(sampler, Sampler)

    def refused(error: Exception) -> None:
        def capture(*_: Any) -> None:
            raise error

        monkeypatch.setattr(sampler, "_captured", capture)
        monkeypatch.setattr(sampler, "captures", True)

    plain = sampler.sample([(20, 21)], zeros, 4, greedy)
    refused(torch.OutOfMemoryError("CUDA out of memory."))
    with pytest.raises(torch.OutOfMemoryError):
        sampler.sample([(20, 21)], zeros, 4, greedy)
    refused(RuntimeError("operation not permitted when stream is capturing"))
    assert sampler.sample([(20, 21)], zeros, 4, greedy) == plain
    assert "without CUDA graphs" in capsys.readouterr().err
