"""Bases, each row's own gradient, sampling, losses and Adam's update: small Qwen2 and Llama under the adapter."""

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
    group_advantages,
    mean_nll,
    pad_rows,
    policy_losses,
    total_nll,
)
from tasks.route.state import Adam, Share, adam_step

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


def noise(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


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


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4)])
def test_bases_give_the_weight_back_and_are_orthonormal(shape: tuple[int, int]) -> None:
    weight = noise(*shape)
    basis = decompose(weight)
    assert torch.allclose((basis.left * basis.values) @ basis.right, weight, atol=1e-5)
    assert torch.equal(basis.values, basis.values.sort(descending=True).values)
    assert torch.allclose(basis.left.T @ basis.left, torch.eye(min(shape)), atol=1e-5)
    assert torch.allclose(basis.right @ basis.right.T, torch.eye(min(shape)), atol=1e-5)


def test_knobs_at_zero_are_the_base_model_to_the_bit(policy: Policy) -> None:
    batch, adapter = pad_rows(ROWS, 5, torch.device("cpu")), policy.adapter
    plain = policy.model.hidden(batch.ids)
    with adapter.active(adapter.zeros()):
        assert torch.equal(policy.model.hidden(batch.ids), plain)
    with adapter.active(0.2 * noise(adapter.layout.total)):
        assert not torch.allclose(policy.model.hidden(batch.ids), plain, atol=1e-3)
    assert torch.equal(policy.model.hidden(batch.ids), plain)


def test_row_gradients_of_all_linears_add_up_to_autograds(policy: Policy) -> None:
    layout = policy.adapter.layout
    assert len(layout.sizes) == 14 and set(layout.sizes) == {8, 16}
    batch = pad_rows(ROWS, 5, torch.device("cpu"))
    for start in (policy.adapter.zeros(), 0.2 * noise(layout.total)):
        found = policy.gradients(ROWS, start, total_nll)
        knobs = start.clone().requires_grad_(True)
        with policy.adapter.active(knobs):
            hidden = policy.model.hidden(batch.ids)
        logits = policy.model.logits(hidden.flatten(0, 1)).unflatten(0, batch.ids.shape).log_softmax(2)
        chosen = logits[:, :-1][batch.inside[:, 1:]].gather(1, batch.ids[batch.inside][:, None])
        (exact,) = torch.autograd.grad(-chosen.sum(), knobs)
        assert (layout.norms(exact) > 1e-3).all()
        assert torch.allclose(found.gradients.sum(0), exact, atol=1e-5)


def test_a_row_in_a_padded_batch_with_knobs_of_its_own_is_as_it_is_alone(policy: Policy) -> None:
    size = policy.adapter.layout.total
    for knobs in (torch.zeros(3, size), 0.2 * noise(3, size)):
        together = policy.gradients(ROWS, knobs, mean_nll)
        assert torch.allclose(policy.log_probabilities(ROWS, knobs), together.log_probabilities, atol=1e-6)
        for number, row in enumerate(ROWS):
            alone, count = policy.gradients([row], knobs[number], mean_nll), len(row.completion)
            assert torch.allclose(together.gradients[number], alone.gradients[0], atol=1e-5)
            assert torch.allclose(
                together.log_probabilities[number, :count], alone.log_probabilities[0, :count], atol=1e-6
            )
            assert not together.log_probabilities[number, count:].any()


def test_rows_are_trained_by_causal_attention_without_a_mask_and_without_cudnn(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With both, cuDNN's gradients are NaN at some lengths."""
    attend, seen = torch.nn.functional.scaled_dot_product_attention, []

    def watched(*given: Tensor, **named: Any) -> Tensor:
        seen.append((named.get("attn_mask"), named.get("is_causal"), torch.backends.cuda.cudnn_sdp_enabled()))
        return attend(*given, **named)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
    allowed = torch.backends.cuda.cudnn_sdp_enabled()
    policy.gradients(ROWS, policy.adapter.zeros(), mean_nll)
    assert len(seen) == 4 and set(seen) == {(None, True, False)}
    assert torch.backends.cuda.cudnn_sdp_enabled() == allowed


def drawn_prompts(count: int) -> list[tuple[int, ...]]:
    generator = torch.Generator().manual_seed(3)
    lengths = torch.randint(1, 12, (count,), generator=generator).tolist()
    return [tuple(torch.randint(14, 48, (length,), generator=generator).tolist()) for length in lengths]


def greedy(logits: Tensor, rows: Tensor, step: int) -> Tensor:
    return logits.argmax(1)


def plainly(policy: Policy, prompt: tuple[int, ...], knobs: Tensor) -> tuple[int, ...]:
    """The most probable tokens, with the whole text through the model for each."""
    tokens = list(prompt)
    with torch.no_grad(), policy.adapter.active(knobs):
        while len(tokens) - len(prompt) < 24 and not (tokens[-1] in END and len(tokens) > len(prompt)):
            tokens.append(int(policy.model.logits(policy.model.hidden(torch.tensor([tokens]))[0, -1:]).argmax()))
    return tuple(tokens[len(prompt) :])


def test_each_row_has_the_tokens_of_plain_decoding_under_its_own_knobs(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.route.policy.SAMPLED_ROWS", 12)
    # Given more rows than go at once, of different lengths, each with knobs of its own
    prompts, knobs = drawn_prompts(20), 0.3 * noise(20, policy.adapter.layout.total)
    # When they are sampled greedily, in two orders
    found = policy.sample(prompts, knobs, 24, greedy)
    assert found == policy.sample(prompts[::-1], knobs.flip(0), 24, greedy)[::-1]
    # Then each is what it is alone, though rows ended at different times
    assert found[::3] == [plainly(policy, prompt, own) for prompt, own in zip(prompts[::3], knobs[::3], strict=True)]
    lengths = [len(row) for row in found]
    assert min(lengths) < 5 and max(lengths) > 16


def test_rows_are_drawn_as_often_as_the_model_says(policy: Policy) -> None:
    prompt, zeros = (20, 21), policy.adapter.zeros()
    rows = policy.sample([prompt] * 2400, zeros, 1, draw_from(torch.Generator().manual_seed(0)))
    with torch.no_grad():
        exact = policy.model.logits(policy.model.hidden(torch.tensor([prompt]))[0, -1:]).softmax(1)[0]
    counts = torch.bincount(torch.tensor([row[0] for row in rows]), minlength=48) / 2400
    assert (counts - exact).abs().max() < 0.04


def test_a_row_by_its_number_is_the_same_whatever_is_sampled_beside_it(policy: Policy) -> None:
    # Given the prompts of two deployments in one batch, with the same numbers
    prompts = drawn_prompts(12)
    deployed = torch.stack([policy.adapter.zeros(), 0.3 * noise(policy.adapter.layout.total)])

    def sampled(seed: int, numbers: list[int], own: Tensor) -> list[tuple[int, ...]]:
        draw = draw_by_row(seed, numbers, 24, policy.adapter.device)
        return policy.sample([prompts[number] for number in numbers], own, 24, draw)

    together = sampled(7, [*range(12)] * 2, deployed.repeat_interleave(12, dim=0))
    # Then each has what it has alone and in any order, and other knobs or another seed have others
    for numbers in ([11, 5, 8], [8]):
        for which, knobs in enumerate(deployed):
            assert sampled(7, numbers, knobs) == [together[12 * which + number] for number in numbers]
    assert together[:12] != together[12:] and together[:12] != sampled(8, [*range(12)], deployed[0])


def test_kept_and_routed_add_up_to_plain_adam_whatever_the_shares() -> None:
    adam = Adam(rate=0.01, beta1=0.9, beta2=0.99, decay=0.1, largest_norm=2.0)
    gradients = [noise(6, seed=step) * (0.1 + step % 3) for step in range(20)]
    assert any(float(gradient.norm()) > adam.largest_norm for gradient in gradients)
    knobs = torch.zeros(6, requires_grad=True)
    optimizer = torch.optim.AdamW([knobs], adam.rate, (adam.beta1, adam.beta2), adam.epsilon, adam.decay)
    whole = kept = routed = Share(torch.zeros(6), torch.zeros(6))
    second = torch.zeros(6)
    for step, gradient in enumerate(gradients):
        knobs.grad = gradient.clone()
        torch.nn.utils.clip_grad_norm_([knobs], adam.largest_norm)
        optimizer.step()
        share = torch.rand(6, generator=torch.Generator().manual_seed(step))
        one = adam_step(adam, gradient, second, step + 1)
        whole, kept = one.move(whole, gradient), one.move(kept, (1 - share) * gradient)
        routed, second = one.move(routed, share * gradient), one.second
    assert torch.allclose(whole.value, knobs, atol=1e-6)
    assert torch.allclose(kept.value + routed.value, knobs, atol=1e-6)
    assert not torch.allclose(kept.value, routed.value, atol=1e-3)


def test_advantages_have_no_standard_deviation_and_groups_without_variance_none_at_all() -> None:
    rewards = torch.tensor([1.0, 0.0, 0.0, 1.25, 1.25, 0.1, 0.1, 0.1])
    advantages, skipped = group_advantages(rewards, torch.tensor([0, 0, 0, 1, 1, 2, 2, 2]))
    assert advantages[:3].tolist() == pytest.approx([2 / 3, -1 / 3, -1 / 3])
    assert advantages[3:].tolist() == [0] * 5 and skipped == 2  # exactly: the mean of three 0.1 is not 0.1


def test_a_loss_has_a_fixed_denominator_the_sign_of_its_advantage_and_its_own_kl_term() -> None:
    new, mask = torch.tensor([[-1.0, -2.0, -3.0]], requires_grad=True), torch.tensor([[1.0, 1.0, 0.0]])
    for advantage in (0.5, -0.5):
        loss = policy_losses(new, mask, torch.tensor([advantage]), 10.0, None, 0.0)
        (gradient,) = torch.autograd.grad(loss.sum(), new)
        assert gradient.tolist() == [pytest.approx([-advantage / 10, -advantage / 10, 0])]
    loss = policy_losses(new, mask, torch.zeros(1), 1.0, torch.tensor([[-0.5, -2.5, 0.0]]), 0.1)
    k3 = sum(torch.tensor(d).exp() - d - 1 for d in (0.5, -0.5))
    assert loss.item() == pytest.approx(0.1 * float(k3), rel=1e-5)
    (gradient,) = torch.autograd.grad(loss.sum(), new)
    assert gradient[0, 0] < 0 < gradient[0, 1] and gradient[0, 2] == 0  # towards the reference
