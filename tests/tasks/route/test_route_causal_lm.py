"""Small Qwen2 and Llama of random weights under the adapter: every kind of Linear, and sampling with a cache."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from tasks.route.adapter import Adapter, decompose
from tasks.route.policy import (
    CausalLM,
    Policy,
    TokenRow,
    draw_by_row,
    draw_from,
    mean_nll,
    pad_rows,
    total_nll,
)

SHAPE = {
    "vocab_size": 48, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "initializer_range": 0.3,
}  # fmt: skip


END = frozenset({2, 5, 7, 9, 11, 13})  # so many that rows end at different times


TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


ROWS = [
    TokenRow((3, 5, 7, 9), (11, 13, 2)),
    TokenRow((4, 6), (8, 10, 12, 14, 2)),
    TokenRow((15, 16, 17, 18, 19, 20), (21, 2)),
]


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
    names = [name for name, _ in model.named_modules() if name.rpartition(".")[2] in TARGETS]
    adapter = Adapter(model, {name: decompose(model.get_parameter(f"{name}.weight")) for name in names})
    return Policy(model, adapter, rows_at_once=2, tokens_at_once=3)


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


def some_knobs(policy: Policy) -> torch.Tensor:
    return 0.2 * torch.randn(policy.adapter.layout.total, generator=torch.Generator().manual_seed(1))


def test_row_gradients_of_all_linears_add_up_to_autograds(policy: Policy) -> None:
    layout = policy.adapter.layout
    assert len(layout.sizes) == 14 and set(layout.sizes) == {8, 16}
    batch = pad_rows(ROWS, 5, torch.device("cpu"))
    for start in (policy.adapter.zeros(), some_knobs(policy)):
        found = policy.gradients(ROWS, start, total_nll)
        knobs = start.clone().requires_grad_(True)
        with policy.adapter.active(knobs):
            hidden = policy.model.hidden(batch.ids)
        logits = policy.model.logits(hidden.flatten(0, 1)).unflatten(0, batch.ids.shape).log_softmax(2)
        chosen = logits[:, :-1][batch.inside[:, 1:]].gather(1, batch.ids[batch.inside][:, None])
        (exact,) = torch.autograd.grad(-chosen.sum(), knobs)
        assert (layout.norms(exact) > 1e-3).all()
        assert torch.allclose(found.gradients.sum(0), exact, atol=1e-5)


def test_rows_are_trained_by_causal_attention_without_a_mask_and_without_cudnn(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    attend, seen = torch.nn.functional.scaled_dot_product_attention, []

    def watched(*given: torch.Tensor, **named: Any) -> torch.Tensor:
        seen.append((named.get("attn_mask"), named.get("is_causal"), torch.backends.cuda.cudnn_sdp_enabled()))
        return attend(*given, **named)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
    allowed = torch.backends.cuda.cudnn_sdp_enabled()
    policy.gradients(ROWS, some_knobs(policy), mean_nll)
    assert len(seen) == 4 and set(seen) == {(None, True, False)}
    assert torch.backends.cuda.cudnn_sdp_enabled() == allowed


def test_each_row_has_the_tokens_of_plain_decoding_under_its_own_knobs(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.route.policy.SAMPLED_ROWS", 24)
    # Given more rows than go at once, of different lengths, each with knobs of its own
    prompts, adapter = drawn_prompts(40), policy.adapter
    knobs = 0.3 * torch.randn(40, adapter.layout.total, generator=torch.Generator().manual_seed(1))
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
