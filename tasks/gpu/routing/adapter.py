"""The adapter: one knob for each singular direction of each target Linear, y += ((x Vh^T) * knobs) U^T.

It holds no knobs.  A caller passes them for the time of a `with`: zero is the base model, the sum of deltaS and
deltaS_hack trains and samples, deltaS alone is what is deployed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from tasks.gpu.routing.bases import Basis
from tasks.gpu.routing.layout import KnobLayout


class Adapter:
    """Hooks on the target Linears of a model, whose own parameters it freezes.

    `layout` is that of the knobs, `inputs` that of the modules' inputs.  `folds_exactly`: the weights are float32, so
    that folding loses nothing.  `close` removes the hooks.
    """

    def __init__(self, model: nn.Module, bases: Mapping[str, Basis]) -> None:
        model.requires_grad_(False)
        self._linears = {name: model.get_submodule(name) for name in bases}
        weights = [_weight(linear) for linear in self._linears.values()]
        self._bases = [
            (basis.left.to(weight), basis.right.to(weight))
            for basis, weight in zip(bases.values(), weights, strict=True)
        ]
        self._exact = list(bases.values())
        self.layout = KnobLayout(tuple(bases), tuple(basis.rank for basis in self._exact))
        self.inputs = KnobLayout(tuple(bases), tuple(weight.shape[1] for weight in weights))
        self.device = weights[0].device
        self.folds_exactly = all(weight.dtype == torch.float32 for weight in weights)
        self._parts: tuple[Tensor, ...] = ()
        self._recorded: list[Tensor] | None = None
        self._where: Tensor | None = None
        self._hooks = [
            linear.register_forward_hook(partial(self._add, number))
            for number, linear in enumerate(self._linears.values())
        ]

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def zeros(self) -> Tensor:
        """The knobs [R] of the base model, float32."""
        return torch.zeros(self.layout.total, device=self.device)

    @contextmanager
    def active(self, knobs: Tensor) -> Iterator[None]:
        """With these knobs: [R] for all rows of a batch, or [B, R], each row its own."""
        before = self._parts
        self._parts = self.layout.parts(knobs if knobs.dim() == 1 else knobs[:, None, :])
        try:
            yield
        finally:
            self._parts = before

    @contextmanager
    def folded(self, knobs: Tensor) -> Iterator[None]:
        """With W + U diag(knobs) Vh as weights, which samples faster; knobs [R].  The weights are put back themselves.

        The sum is taken in float32 and rounded to the weights' type: in bfloat16 small knobs are lost in that.
        """
        originals = [_weight(linear) for linear in self._linears.values()]
        parts = self.layout.parts(knobs)
        try:
            for linear, weight, basis, part in zip(self._linears.values(), originals, self._exact, parts, strict=True):
                change = (basis.left.to(part) * part) @ basis.right.to(part)
                linear.weight = nn.Parameter((weight.float() + change).to(weight), requires_grad=False)
            yield
        finally:
            for linear, weight in zip(self._linears.values(), originals, strict=True):
                linear.weight = weight

    @contextmanager
    def recording(self, where: Tensor) -> Iterator[list[Tensor]]:
        """The mean input of each module, [B, in], over the positions `where` [B, T] of the one forward pass within."""
        self._recorded, self._where = [], where
        try:
            yield self._recorded
        finally:
            self._recorded, self._where = None, None

    def _add(self, number: int, linear: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        x = inputs[0]
        if self._recorded is not None and self._where is not None:
            weights = (self._where / self._where.sum(1, keepdim=True)).float()
            self._recorded.append(torch.einsum("bt,btd->bd", weights, x.detach().float()))
        if not self._parts:
            return output
        left, right = self._bases[number]
        return output + ((x @ right.T) * self._parts[number].to(x)) @ left.T


def _weight(linear: nn.Module) -> nn.Parameter:
    weight = linear.weight
    assert isinstance(weight, nn.Parameter)
    return weight
