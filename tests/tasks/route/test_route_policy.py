"""Each row's own gradient, sampling, losses and Adam's update: a small Qwen2 under the adapter."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import Qwen2Config, Qwen2ForCausalLM

from tasks.route.adapter import Adapter, decompose
from tasks.route.policy import (
    CausalLM,
    Draw,
    Policy,
    TokenRow,
    draw_by_row,
    draw_from,
    group_advantages,
    policy_losses,
    total_nll,
)
from tasks.route.state import Adam, Share, adam_step

SHAPE = {
    "vocab_size": 48, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "initializer_range": 0.3,
}  # fmt: skip
END = frozenset({2, 5, 7, 9, 11, 13})  # so many that rows end at different times
ROWS = [
    TokenRow((3, 5, 7, 9), (11, 13, 2)),
    TokenRow((4, 6), (8, 10, 12, 14, 2)),
    TokenRow((15, 16, 17, 18, 19, 20), (21, 2)),
]


def noise(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def policy() -> Policy:
    torch.manual_seed(0)
    model = CausalLM(Qwen2ForCausalLM(Qwen2Config(**SHAPE)), END)
    names = [name for name, _ in model.named_modules() if name.endswith("_proj")]
    adapter = Adapter(model, {name: decompose(model.get_parameter(f"{name}.weight")) for name in names})
    return Policy(model, adapter, rows_at_once=2, tokens_at_once=3)


def test_knobs_at_zero_are_the_base_model_to_the_bit(policy: Policy) -> None:
    ids, adapter = torch.tensor([row.prompt[:2] + row.completion[:2] for row in ROWS]), policy.adapter
    plain = policy.model.hidden(ids)
    with adapter.active(adapter.zeros()):
        assert torch.equal(policy.model.hidden(ids), plain)
    with adapter.active(0.2 * noise(adapter.layout.total)):
        assert not torch.allclose(policy.model.hidden(ids), plain, atol=1e-3)
    assert torch.equal(policy.model.hidden(ids), plain)


def test_each_row_of_a_padded_batch_with_knobs_of_its_own_has_autograds_gradient(policy: Policy) -> None:
    layout = policy.adapter.layout
    assert len(layout.sizes) == 14 and set(layout.sizes) == {8, 16}
    for start in (torch.zeros(3, layout.total), 0.2 * noise(3, layout.total)):
        together = policy.gradients(ROWS, start, total_nll)
        assert torch.allclose(policy.log_probabilities(ROWS, start), together.log_probabilities, atol=1e-6)
        for number, row in enumerate(ROWS):
            knobs, count = start[number].clone().requires_grad_(True), len(row.completion)
            with policy.adapter.active(knobs):
                hidden = policy.model.hidden(torch.tensor([row.prompt + row.completion]))[0]
            said = policy.model.logits(hidden).log_softmax(1)[-count - 1 : -1]
            chosen = said.gather(1, torch.tensor(row.completion)[:, None])[:, 0]
            (exact,) = torch.autograd.grad(-chosen.sum(), knobs)
            assert (layout.norms(exact) > 1e-3).all()
            assert torch.allclose(together.gradients[number], exact, atol=1e-5)
            assert torch.allclose(together.log_probabilities[number, :count], chosen, atol=1e-6)
            assert not together.log_probabilities[number, count:].any()


def plainly(policy: Policy, prompt: tuple[int, ...], knobs: Tensor, draw: Draw) -> tuple[int, ...]:
    """Tokens of one row, with the whole text through the model for each."""
    tokens = list(prompt)
    with torch.no_grad(), policy.adapter.active(knobs):
        for step in range(24):
            logits = policy.model.logits(policy.model.hidden(torch.tensor([tokens]))[0, -1:])
            tokens.append(int(draw(logits, torch.tensor([0]), step)))
            if tokens[-1] in END:
                break
    return tuple(tokens[len(prompt) :])


def test_a_row_has_the_tokens_of_plain_decoding_under_its_own_knobs_whatever_is_sampled_beside_it(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.route.policy.SAMPLED_ROWS", 12)
    # Given more rows than go at once: prompts of different lengths for two deployments, with the same numbers
    generator, size, numbers = torch.Generator().manual_seed(3), policy.adapter.layout.total, [*range(10)] * 2
    prompts = [tuple(torch.randint(14, 48, (1 + number,), generator=generator).tolist()) for number in range(10)]
    knobs = torch.stack([torch.zeros(size), 0.3 * noise(size)]).repeat_interleave(10, dim=0)
    # When they are sampled, then each is what it is alone, though rows end at different times
    found = policy.sample(prompts * 2, knobs, 24, draw_by_row(7, numbers, 24, policy.adapter.device))
    for number, prompt, own, row in zip(numbers, prompts * 2, knobs, found, strict=True):
        assert row == plainly(policy, prompt, own, draw_by_row(7, [number], 24, policy.adapter.device))
    assert min(map(len, found)) < 5 and max(map(len, found)) > 12
    # and other knobs have others
    assert found[:10] != found[10:]


def test_rows_are_drawn_as_often_as_the_model_says(policy: Policy) -> None:
    prompt, zeros = (20, 21), policy.adapter.zeros()
    rows = policy.sample([prompt] * 2400, zeros, 1, draw_from(torch.Generator().manual_seed(0)))
    with torch.no_grad():
        exact = policy.model.logits(policy.model.hidden(torch.tensor([prompt]))[0, -1:]).softmax(1)[0]
    counts = torch.bincount(torch.tensor([row[0] for row in rows]), minlength=48) / 2400
    assert (counts - exact).abs().max() < 0.04


def test_kept_and_routed_add_up_to_plain_adam_whatever_the_shares() -> None:
    adam = Adam(rate=0.01, beta1=0.9, beta2=0.99, decay=0.1, largest_norm=2.0)
    gradients = [noise(6, seed=step) * (0.1 + step % 3) for step in range(20)]
    assert any(float(gradient.norm()) > adam.largest_norm for gradient in gradients)
    knobs = torch.zeros(6, requires_grad=True)
    optimizer = torch.optim.AdamW([knobs], adam.rate, (adam.beta1, adam.beta2), adam.epsilon, adam.decay)
    kept = routed = Share(torch.zeros(6), torch.zeros(6))
    second = torch.zeros(6)
    for step, gradient in enumerate(gradients):
        knobs.grad = gradient.clone()
        torch.nn.utils.clip_grad_norm_([knobs], adam.largest_norm)
        optimizer.step()
        share = torch.rand(6, generator=torch.Generator().manual_seed(step))
        one = adam_step(adam, gradient, second, step + 1)
        kept, routed, second = one.move(kept, (1 - share) * gradient), one.move(routed, share * gradient), one.second
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
