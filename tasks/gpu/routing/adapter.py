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
        dtypes = {weight.dtype for weight in weights}
        self._dtype = dtypes.pop() if len(dtypes) == 1 else None  # of all weights, where they have one
        self._parts: tuple[Tensor, ...] = ()
        self._recording: _Recording | None = None
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
        if self._dtype is not None:
            knobs = knobs.to(self._dtype)  # once, and not in every module
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
        self._recording = _Recording((where / where.sum(1, keepdim=True)).float())
        try:
            yield self._recording.means
        finally:
            self._recording = None

    def _add(self, number: int, linear: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        x = inputs[0]
        if self._recording is not None:
            self._recording.add(x)
        if not self._parts:
            return output
        left, right = self._bases[number]
        return output + ((x @ right.T) * self._parts[number].to(x)) @ left.T


class _Recording:
    """The mean of each module's input, weighted by `weights` [B, T], in the order in which the modules run."""

    def __init__(self, weights: Tensor) -> None:
        self.means: list[Tensor] = []
        self._weights = weights
        self._last: Tensor | None = None

    def add(self, x: Tensor) -> None:
        """x [B, T, in].  Linears that read the same tensor, as q, k and v do, have the same mean: it is taken once."""
        if x is not self._last:
            self._last = x
            mean = torch.einsum("bt,btd->bd", self._weights, x.detach().float())
        else:
            mean = self.means[-1]
        self.means.append(mean)


def _weight(linear: nn.Module) -> nn.Parameter:
    weight = linear.weight
    assert isinstance(weight, nn.Parameter)
    return weight
