"""A small Qwen2 with random weights under the adapter: every kind of Linear, padding, and sampling with a cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from tasks.route.adapter import Adapter, decompose
from tasks.route.policy import CausalLM, Policy, TokenRow, load_causal_lm, mean_nll, pad_rows, total_nll

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
ROWS = [
    TokenRow((3, 5, 7, 9), (11, 13, 2)),
    TokenRow((4, 6), (8, 10, 12, 14, 2)),
    TokenRow((15, 16, 17, 18, 19, 20), (21, 2)),
]


@pytest.fixture(scope="module")
def policy() -> Policy:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=48, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, initializer_range=0.3,
    )  # fmt: skip
    model = CausalLM(Qwen2ForCausalLM(config), frozenset({2}))
    names = [name for name, _ in model.named_modules() if name.rpartition(".")[2] in TARGETS]
    adapter = Adapter(model, {name: decompose(model.get_parameter(f"{name}.weight")) for name in names})
    return Policy(model, adapter, rows_at_once=2, tokens_at_once=3)


def some_knobs(policy: Policy) -> torch.Tensor:
    return 0.2 * torch.randn(policy.adapter.layout.total, generator=torch.Generator().manual_seed(1))


def test_row_gradients_of_all_linears_add_up_to_autograds(policy: Policy) -> None:
    layout = policy.adapter.layout
    assert len(layout.names) == 14 and set(layout.sizes) == {8, 16}
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


def test_a_saved_model_is_loaded(policy: Policy, tmp_path: Path) -> None:
    model = policy.model
    assert isinstance(model, CausalLM)
    model.network.save_pretrained(tmp_path)
    loaded = load_causal_lm(tmp_path, "cpu", torch.float32, frozenset({2}))
    ids = torch.tensor([[3, 5, 7]])
    with torch.no_grad():
        assert torch.equal(loaded.hidden(ids), model.hidden(ids))
