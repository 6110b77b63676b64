"""Sampling with a cache: the tokens of plain decoding, whatever is sampled beside them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from tasks.route.adapter import Adapter, decompose
from tasks.route.policy import CausalLM, Policy, draw_by_row, draw_from

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
    return Policy(model, adapter, rows_at_once=8)


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


def test_each_row_has_the_tokens_of_plain_decoding_under_its_own_knobs(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.route.policy.SAMPLED_ROWS", 24)
    # Given more rows than go at once, of different lengths, each with knobs of its own
    prompts, adapter = drawn_prompts(40), policy.adapter
    knobs = 0.5 * torch.randn(40, adapter.layout.total, generator=torch.Generator().manual_seed(1))
    # When they are sampled greedily, twice
    found = policy.sample(prompts, knobs, 60, greedy)
    again = policy.sample(prompts[::-1], knobs.flip(0), 60, greedy)[::-1]
    # Then each is what it is alone, though rows ended at different times
    assert found == again
    assert found[::7] == [plainly(policy, prompt, own) for prompt, own in zip(prompts[::7], knobs[::7], strict=True)]
    lengths = [len(row) for row in found]
    assert min(lengths) < 5 and max(lengths) > 32


def test_rows_are_drawn_as_often_as_the_model_says(policy: Policy) -> None:
    prompt, zeros = (20, 21), policy.adapter.zeros()
    rows = policy.sample([prompt] * 2400, zeros, 1, draw_from(torch.Generator().manual_seed(0)))
    with torch.no_grad():
        ids = torch.tensor([prompt])
        exact = policy.model.logits(policy.model.hidden(ids)[0, -1:]).softmax(1)[0]
    counts = torch.bincount(torch.tensor([row[0] for row in rows]), minlength=48) / 2400
    assert (counts - exact).abs().max() < 0.04


def test_a_row_by_its_number_is_the_same_whatever_is_sampled_beside_it(policy: Policy) -> None:
    adapter, device = policy.adapter, policy.adapter.device
    prompts, knobs = drawn_prompts(40), adapter.zeros()
    together = policy.sample(prompts, knobs, 60, draw_by_row(7, range(40), 60, device))
    for numbers in ([39, 5, 22], [22]):
        some = [prompts[number] for number in numbers]
        found = policy.sample(some, knobs, 60, draw_by_row(7, numbers, 60, device))
        assert found == [together[number] for number in numbers]
    assert together != policy.sample(prompts, knobs, 60, draw_by_row(8, range(40), 60, device))
