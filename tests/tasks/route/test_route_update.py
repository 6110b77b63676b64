"""One Adam for kept and routed shares, and GRPO's advantages and losses."""

from __future__ import annotations

import pytest
import torch

from tasks.route.adapter import KnobLayout
from tasks.route.policy import group_advantages, policy_losses
from tasks.route.splits import Adam, Share, no_share, share_step, whole_scale, without_component

CPU = torch.device("cpu")
ADAM = Adam(rate=0.01, beta1=0.9, beta2=0.99, decay=0.1, largest_norm=2.0)


def gradients(steps: int, size: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    return [torch.randn(size, generator=generator) * (0.1 + step % 3) for step in range(steps)]


def moved(shares: list[torch.Tensor], adam: Adam = ADAM) -> tuple[Share, Share, Share]:
    """The whole, the kept and the routed share after 20 steps, `shares` [steps][R] being the routed f of each knob."""
    whole, kept, routed = (no_share(6, CPU) for _ in range(3))
    second = torch.zeros(6)
    for number, (gradient, share) in enumerate(zip(gradients(20, 6), shares, strict=True), 1):
        scale, second = whole_scale(gradient, second, number, adam)
        whole = share_step(whole, gradient, scale, adam)
        kept = share_step(kept, (1 - share) * gradient, scale, adam)
        routed = share_step(routed, share * gradient, scale, adam)
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
        share, second = no_share(6, CPU), torch.zeros(6)
        for number, gradient in enumerate(gradients(20, 6), 1):
            scale, second = whole_scale(factor * gradient, second, number, adam)
            share = share_step(share, factor * gradient, scale, adam)
        return share.value

    assert torch.allclose(alone(0.05), whole.value, rtol=1e-4)
    assert torch.allclose(alone(0.05) + alone(0.95), 2 * whole.value, rtol=1e-4)


def test_erase_takes_the_hack_ward_part_off_the_update_and_leaves_the_rest() -> None:
    layout = KnobLayout(("first", "second"), (2, 4))
    direction = layout.units(torch.tensor([[1.0, 1.0, 1.0, 0.0, 0.0, 0.0]]))
    share, plain, second = no_share(6, CPU), no_share(6, CPU), torch.zeros(6)
    for number in range(1, 20):
        gradient = torch.tensor([3.0, 0.1, -1.0, 0.5, 0.2, 0.1])  # hack-ward in the first module, not in the second
        scale, second = whole_scale(gradient, second, number, Adam(rate=0.01))
        share = share_step(share, gradient, scale, Adam(rate=0.01), lambda u: without_component(layout, u, direction))
        plain = share_step(plain, gradient, scale, Adam(rate=0.01))
    assert abs(float(layout.sums(share.value * direction[0])[0])) < 1e-6
    assert float(layout.sums(plain.value * direction[0])[0]) < -0.1
    assert torch.equal(share.value[2:], plain.value[2:])


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
