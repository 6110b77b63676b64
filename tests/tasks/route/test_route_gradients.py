"""Bases, the adapter, the gradient of each row, and the update that one Adam makes of it."""

from __future__ import annotations

import pytest
import torch
from toy_world import NONE, SOLVE, A, B, ToyModel, hack_of, honest_of, policy_of, prompt_of

from tasks.route.adapter import decompose
from tasks.route.policy import Policy, TokenRow, group_advantages, mean_nll, pad_rows, policy_losses
from tasks.route.state import Adam, Share, adam_step

ROWS = [
    TokenRow(prompt_of(A, 3).tokens, hack_of(A)),
    TokenRow(prompt_of(NONE, 5).tokens, (*honest_of(5)[:1], *honest_of(5))),
    TokenRow((*prompt_of(B, 9).tokens, SOLVE), honest_of(9)[1:]),
]


@pytest.fixture(scope="module")
def policy() -> Policy:
    torch.manual_seed(0)
    return policy_of(ToyModel(), rows_at_once=2)


def some_knobs(policy: Policy, seed: int = 1, size: float = 0.3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return size * torch.randn(policy.adapter.layout.total, generator=generator)


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4)])
def test_bases_give_the_weight_back_and_are_orthonormal(shape: tuple[int, int]) -> None:
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    basis = decompose(weight)
    assert len(basis.values) == min(shape)
    assert torch.allclose((basis.left * basis.values) @ basis.right, weight, atol=1e-5)
    assert torch.equal(basis.values, basis.values.sort(descending=True).values)
    assert torch.allclose(basis.left.T @ basis.left, torch.eye(min(shape)), atol=1e-5)
    assert torch.allclose(basis.right @ basis.right.T, torch.eye(min(shape)), atol=1e-5)


def test_knobs_at_zero_are_the_base_model_to_the_bit(policy: Policy) -> None:
    batch = pad_rows(ROWS, 4, torch.device("cpu"))
    plain = policy.model.hidden(batch.ids)
    with policy.adapter.active(policy.adapter.zeros()):
        assert torch.equal(policy.model.hidden(batch.ids), plain)
    with policy.adapter.active(some_knobs(policy)):
        assert not torch.allclose(policy.model.hidden(batch.ids), plain, atol=1e-3)
    assert torch.equal(policy.model.hidden(batch.ids), plain)


def test_a_row_alone_has_the_gradient_that_it_has_in_a_padded_batch(policy: Policy) -> None:
    for knobs in (policy.adapter.zeros(), some_knobs(policy)):
        together = policy.gradients(ROWS, knobs, mean_nll)
        for number, row in enumerate(ROWS):
            alone = policy.gradients([row], knobs, mean_nll)
            assert torch.allclose(together.gradients[number], alone.gradients[0], atol=1e-6)
            count = len(row.completion)
            assert torch.allclose(
                together.log_probabilities[number, :count], alone.log_probabilities[0, :count], atol=1e-6
            )
            assert not together.log_probabilities[number, count:].any()


def test_each_row_can_have_knobs_of_its_own(policy: Policy) -> None:
    several = torch.stack([some_knobs(policy, seed) for seed in range(3)])
    together = policy.log_probabilities(ROWS, several)
    for number, row in enumerate(ROWS):
        alone = policy.log_probabilities([row], several[number])
        assert torch.allclose(together[number, : alone.shape[1]], alone[0], atol=1e-6)
    gradients = policy.gradients(ROWS, several, mean_nll).gradients
    assert torch.allclose(gradients[2], policy.gradients(ROWS[2:], several[2], mean_nll).gradients[0], atol=1e-6)


ADAM = Adam(rate=0.01, beta1=0.9, beta2=0.99, decay=0.1, largest_norm=2.0)


def gradients(steps: int, size: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    return [torch.randn(size, generator=generator) * (0.1 + step % 3) for step in range(steps)]


def moved(shares: list[torch.Tensor], adam: Adam = ADAM) -> tuple[Share, Share, Share]:
    """The whole, the kept and the routed share after 20 steps, `shares` [steps][R] being the routed f of each knob."""
    whole = kept = routed = Share(torch.zeros(6), torch.zeros(6))
    second = torch.zeros(6)
    for number, (gradient, share) in enumerate(zip(gradients(20, 6), shares, strict=True), 1):
        move, second = adam_step(adam, gradient, second, number)
        whole, kept, routed = (
            move(each, part * gradient) for each, part in ((whole, 1), (kept, 1 - share), (routed, share))
        )
    return whole, kept, routed


def torch_adam(adam: Adam = ADAM) -> torch.Tensor:
    """What torch's AdamW makes of the same gradients, clipped by their norm."""
    knobs = torch.zeros(6, requires_grad=True)
    optimizer = torch.optim.AdamW([knobs], adam.rate, (adam.beta1, adam.beta2), adam.epsilon, adam.decay)
    for gradient in gradients(20, 6):
        knobs.grad = gradient.clone()
        if adam.largest_norm:
            torch.nn.utils.clip_grad_norm_([knobs], adam.largest_norm)
        optimizer.step()
    return knobs.detach()


def test_kept_and_routed_add_up_to_plain_adam_whatever_the_shares() -> None:
    drawn = [torch.rand(6, generator=torch.Generator().manual_seed(step)) for step in range(20)]
    whole, kept, routed = moved(drawn)
    assert any(float(gradient.norm()) > ADAM.largest_norm for gradient in gradients(20, 6))
    assert torch.allclose(whole.value, torch_adam(), atol=1e-6)
    assert torch.allclose(kept.value + routed.value, torch_adam(), atol=1e-6)
    assert not torch.allclose(kept.value, routed.value, atol=1e-3)
    assert torch.allclose(kept.value, whole.value - routed.value, atol=1e-6)  # what the loop keeps: the difference


def test_a_share_of_a_twentieth_moves_a_knob_a_twentieth_as_far() -> None:
    adam = Adam(rate=0.01)
    whole, kept, routed = moved([torch.full((6,), 0.05)] * 20, adam)
    assert torch.allclose(routed.value, 0.05 * whole.value, rtol=1e-5)
    assert torch.allclose(kept.value, 0.95 * whole.value, rtol=1e-5)

    # With an Adam each it moves as far, and the sum twice as far.
    def alone(factor: float) -> torch.Tensor:
        share, second = Share(torch.zeros(6), torch.zeros(6)), torch.zeros(6)
        for number, gradient in enumerate(gradients(20, 6), 1):
            move, second = adam_step(adam, factor * gradient, second, number)
            share = move(share, factor * gradient)
        return share.value

    assert torch.allclose(alone(0.05), whole.value, rtol=1e-4)
    assert torch.allclose(alone(0.05) + alone(0.95), 2 * whole.value, rtol=1e-4)


def test_advantages_have_no_standard_deviation_and_groups_without_variance_none_at_all() -> None:
    rewards = torch.tensor([1.0, 0.0, 0.0, 1.25, 1.25, 0.1, 0.1, 0.1])
    groups = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2])
    advantages, skipped = group_advantages(rewards, groups)
    assert advantages[:3].tolist() == pytest.approx([2 / 3, -1 / 3, -1 / 3])
    assert advantages[3:].tolist() == [0] * 5 and skipped == 2  # exactly: the mean of three 0.1 is not 0.1


def test_a_loss_has_a_fixed_denominator_and_the_sign_of_its_advantage() -> None:
    new = torch.tensor([[-1.0, -2.0, -3.0]], requires_grad=True)
    for advantage in (0.5, -0.5):
        loss = policy_losses(new, torch.tensor([[1.0, 1.0, 0.0]]), torch.tensor([advantage]), 10.0, None, 0.0)
        (gradient,) = torch.autograd.grad(loss.sum(), new)
        assert gradient.tolist() == [pytest.approx([-advantage / 10, -advantage / 10, 0])]


def test_the_kl_term_is_k3_and_belongs_to_the_rows_loss() -> None:
    new = torch.tensor([[-1.0, -2.0, -3.0]], requires_grad=True)
    reference = torch.tensor([[-0.5, -2.5, 0.0]])
    loss = policy_losses(new, torch.tensor([[1.0, 1.0, 0.0]]), torch.zeros(1), 1.0, reference, 0.1)
    exact = sum(torch.tensor(d).exp() - d - 1 for d in (0.5, -0.5))
    assert loss.item() == pytest.approx(0.1 * float(exact), rel=1e-5)
    (gradient,) = torch.autograd.grad(loss.sum(), new)
    assert gradient[0, 0] < 0 < gradient[0, 1] and gradient[0, 2] == 0  # towards the reference
