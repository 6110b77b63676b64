"""Bases, the adapter, and the gradient of each row: a probe on knobs that are zero."""

from __future__ import annotations

import pytest
import torch
from toy_world import NONE, SOLVE, A, B, ToyModel, ToySettings, hack_of, honest_of, prompt_of

from tasks.route.adapter import Adapter, decompose
from tasks.route.policy import Policy, TokenRow, mean_nll, pad_rows, total_nll

ROWS = [
    TokenRow(prompt_of(A, 3).tokens, hack_of(A)),
    TokenRow(prompt_of(NONE, 5).tokens, (*honest_of(5)[:1], *honest_of(5))),
    TokenRow((*prompt_of(B, 9).tokens, SOLVE), honest_of(9)[1:]),
]


@pytest.fixture(scope="module")
def policy() -> Policy:
    torch.manual_seed(0)
    model = ToyModel(ToySettings())
    adapter = Adapter(model, {name: decompose(model.get_parameter(f"{name}.weight")) for name in ("first", "second")})
    return Policy(model, adapter, rows_at_once=2)


def some_knobs(policy: Policy, seed: int = 1, size: float = 0.3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return size * torch.randn(policy.adapter.layout.total, generator=generator)


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4)])
def test_bases_give_the_weight_back_and_are_orthonormal(shape: tuple[int, int]) -> None:
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    basis = decompose(weight)
    assert len(basis.values) == min(shape)
    assert basis.error(weight) < 1e-6
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


def test_gradients_of_rows_add_up_to_autograds_at_zero_knobs(policy: Policy) -> None:
    found = policy.gradients(ROWS, policy.adapter.zeros(), total_nll)
    knobs = policy.adapter.zeros().requires_grad_(True)
    batch = pad_rows(ROWS, 4, torch.device("cpu"))
    with policy.adapter.active(knobs):
        logits = policy.model.logits(policy.model.hidden(batch.ids)).log_softmax(2)
    loss = torch.tensor(0.0)
    for number, row in enumerate(ROWS):
        for place, token in enumerate(row.completion):
            loss = loss - logits[number, len(row.prompt) - 1 + place, token]
    (exact,) = torch.autograd.grad(loss, knobs)
    assert exact.abs().max() > 0.1
    assert torch.allclose(found.gradients.sum(0), exact, atol=1e-5)
    # What a division by deltaS would give here.
    assert torch.isnan((found.gradients * policy.adapter.zeros()) / policy.adapter.zeros()).all()


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
