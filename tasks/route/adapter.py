"""One knob for each singular direction of each target Linear, W = U S Vh: y += ((x Vh^T) * knobs) U^T.

The adapter holds no knobs.  A caller passes them for the time of a `with`: zero is the base model, the sum of deltaS
and deltaS_hack trains and samples, deltaS alone is what is deployed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import torch
from torch import Tensor, nn

from tasks.common.files import write_atomic


@dataclass(frozen=True)
class KnobLayout:
    """The modules in the order of their parts: `names` and `sizes`, both of length M; R is the sum of the sizes."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.sizes)

    def parts(self, flat: Tensor) -> tuple[Tensor, ...]:
        """[..., R] as M tensors [..., r]."""
        return torch.split(flat, list(self.sizes), dim=-1)

    def sums(self, flat: Tensor) -> Tensor:
        """Within each module: [..., R] to [..., M]."""
        if len(set(self.sizes)) == 1:
            return flat.reshape(*flat.shape[:-1], len(self.sizes), self.sizes[0]).sum(-1)
        among, order = _alike(self.sizes, flat.device)
        return torch.cat([flat[..., places].sum(-1) for places in among], dim=-1)[..., order]

    def spread(self, values: Tensor) -> Tensor:
        """[..., M]: each module's value at each of its knobs, [..., R]."""
        return values[..., _owners(self.sizes, values.device)]

    def norms(self, flat: Tensor) -> Tensor:
        """The Euclidean norm of each module's part: [..., M]."""
        return self.sums(flat * flat).sqrt()

    def units(self, flat: Tensor) -> Tensor:
        """[..., R] with each module's part of norm 1; a part that is zero stays zero."""
        norms = self.norms(flat)
        return flat / self.spread(torch.where(norms > 0, norms, torch.ones_like(norms)))


# A model has hundreds of modules of few sizes.  These let a GPU do in a few kernels what else takes some for each one.
@cache
def _owners(sizes: tuple[int, ...], device: torch.device) -> Tensor:
    """The number of the module that each knob belongs to, [R]."""
    return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)).to(device)


@cache
def _alike(sizes: tuple[int, ...], device: torch.device) -> tuple[tuple[Tensor, ...], Tensor]:
    """For each size the places of the knobs of its modules, [m, r]; where each module comes in all of these, [M]."""
    ends = torch.tensor(sizes).cumsum(0)
    numbers = {size: [number for number, own in enumerate(sizes) if own == size] for size in dict.fromkeys(sizes)}
    places = tuple(((ends[found] - size)[:, None] + torch.arange(size)).to(device) for size, found in numbers.items())
    return places, torch.tensor([number for found in numbers.values() for number in found]).argsort().to(device)


LARGEST_ERROR = 1e-3
"""The largest relative error of U S Vh that is accepted."""
# S comes from the roots of eigenvalues in float64, so what is below about 1e-8 of the largest is rounding.
_NO_DIRECTION = 1e-6


@dataclass(frozen=True)
class Basis:
    """`left` U [out, r], `values` S [r] from large to small and `right` Vh [r, in], all float32; r = min(out, in).

    A singular value of almost 0 has no direction of its own: it is 0 here, and so is its row of Vh.
    """

    left: Tensor
    values: Tensor
    right: Tensor

    def error(self, weight: Tensor) -> float:
        exact = weight.detach().to(self.left)
        return float((exact - (self.left * self.values) @ self.right).norm() / exact.norm())


def decompose(weight: Tensor) -> Basis:
    """The bases of a weight [out, in], by the eigenvectors of W W^T (or W^T W, if smaller) in float64.

    The sign of each direction is set: the largest entry of its shorter vector is positive.
    """
    exact = weight.detach().to(torch.float64)
    if not torch.isfinite(exact).all() or not exact.any():
        raise ValueError("the weight is zero or has entries that are not finite")
    wide = exact if exact.shape[0] <= exact.shape[1] else exact.T
    eigenvalues, vectors = torch.linalg.eigh(wide @ wide.T)
    short = vectors.flip(1)
    largest = short.gather(0, short.abs().argmax(0, keepdim=True))
    short = short * torch.where(largest < 0, -1.0, 1.0)
    values = eigenvalues.flip(0).clamp(min=0).sqrt()
    values = torch.where(values > _NO_DIRECTION * values[0], values, torch.zeros_like(values))
    inverse = torch.where(values > 0, 1 / values, torch.zeros_like(values))
    long = (short.T @ wide) * inverse[:, None]
    left, right = (short, long) if exact.shape[0] <= exact.shape[1] else (long.T, short.T)
    basis = Basis(left.float().contiguous(), values.float(), right.float().contiguous())
    error = basis.error(weight)
    if not error < LARGEST_ERROR:
        raise ValueError(
            f"U S Vh differs from the weight by {error:.1e} of its norm; at most {LARGEST_ERROR} is accepted"
        )
    return basis


def weight_hash(weight: Tensor) -> str:
    """Of shape, type and every bit."""
    data = weight.detach().cpu().contiguous()
    described = f"{tuple(data.shape)} {data.dtype}".encode()
    return hashlib.sha256(described + data.view(torch.uint8).numpy().tobytes()).hexdigest()


def weights_hash(model: nn.Module) -> str:
    found = hashlib.sha256()
    for name, weight in model.state_dict().items():
        found.update(f"{name} {weight_hash(weight)}\n".encode())
    return found.hexdigest()


def bases_of(
    model: nn.Module, targets: Sequence[str], folder: Path, on_module: Callable[[int, int], None]
) -> dict[str, Basis]:
    """By the names of the Linears whose names end in one of `targets`, from the folder or computed and put there.

    `on_module` is called as (done, total).
    """
    from safetensors.torch import load_file, save

    weights = {
        name: module.weight
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name.rpartition(".")[2] in targets
    }
    if missing := [target for target in targets if not any(name.rpartition(".")[2] == target for name in weights)]:
        raise ValueError(f"model.targets: the model has no Linear {missing[0]!r}")
    found: dict[str, Basis] = {}
    for number, (name, weight) in enumerate(weights.items(), 1):
        path = folder / f"{weight_hash(weight)}.safetensors"
        if path.is_file():
            kept = load_file(path, device=str(weight.device))
            found[name] = Basis(kept["left"], kept["values"], kept["right"])
        else:
            found[name] = basis = decompose(weight)
            write_atomic(path, save({"left": basis.left, "values": basis.values, "right": basis.right}))
        on_module(number, len(weights))
    return found


class Adapter:
    """Hooks on the target Linears of a model, whose own parameters it freezes.

    `layout` is that of the knobs, `inputs` that of the modules' inputs.
    """

    def __init__(self, model: nn.Module, bases: Mapping[str, Basis]) -> None:
        model.requires_grad_(False)
        linears = [model.get_submodule(name) for name in bases]
        weights = [model.get_parameter(f"{name}.weight") for name in bases]
        self.layout = KnobLayout(tuple(bases), tuple(len(basis.values) for basis in bases.values()))
        self.inputs = KnobLayout(tuple(bases), tuple(weight.shape[1] for weight in weights))
        self.device, self._dtype = weights[0].device, weights[0].dtype
        self._bases = [(basis.left.to(weights[0]), basis.right.to(weights[0])) for basis in bases.values()]
        self._parts: tuple[Tensor, ...] = ()
        self._weights: Tensor | None = None  # of the inputs in their means, [B, T]
        self._means: list[Tensor] = []
        self._last: Tensor | None = None
        for number, linear in enumerate(linears):
            linear.register_forward_hook(partial(self._add, number))

    def zeros(self) -> Tensor:
        return torch.zeros(self.layout.total, device=self.device)

    @contextmanager
    def active(self, knobs: Tensor) -> Iterator[None]:
        """With these knobs: [R] for all rows of a batch, or [B, R], each row its own."""
        before, knobs = self._parts, knobs.to(self._dtype)
        self._parts = self.layout.parts(knobs if knobs.dim() == 1 else knobs[:, None, :])
        try:
            yield
        finally:
            self._parts = before

    @contextmanager
    def recording(self, where: Tensor) -> Iterator[list[Tensor]]:
        """The mean input of each module, [B, in], over the positions `where` [B, T] of the one forward pass within."""
        self._weights, self._means = (where / where.sum(1, keepdim=True)).float(), []
        try:
            yield self._means
        finally:
            self._weights = self._last = None

    def _add(self, number: int, linear: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        x = inputs[0]
        if self._weights is not None and x is not self._last:
            self._last = x
            self._means.append(torch.einsum("bt,btd->bd", self._weights, x.detach().float()))
        elif self._weights is not None:  # q, k and v read the same tensor: its mean is taken once
            self._means.append(self._means[-1])
        if not self._parts:
            return output
        left, right = self._bases[number]
        return output + ((x @ right.T) * self._parts[number].to(x)) @ left.T
