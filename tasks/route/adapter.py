"""One knob for each singular direction of each target Linear, W = U S Vh: y += ((x Vh^T) * knobs) U^T.

The adapter holds no knobs: a caller passes them for the time of a `with`.  Zero is the base model, the sum of deltaS
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

LARGEST_ERROR = 1e-3
"""The largest relative error of U S Vh that is accepted."""
# S comes from the roots of eigenvalues in float64, so what is below about 1e-8 of the largest is rounding.
_NO_DIRECTION = 1e-6


@dataclass(frozen=True)
class KnobLayout:
    """Flat vectors in which each of M modules has a part; R is the sum of the `sizes` [M]."""

    sizes: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.sizes)

    def parts(self, flat: Tensor) -> tuple[Tensor, ...]:
        """[..., R] as M tensors [..., r]."""
        return torch.split(flat, list(self.sizes), dim=-1)

    def sums(self, flat: Tensor) -> Tensor:
        """Within each module: [..., R] to [..., M]."""
        if len(set(self.sizes)) == 1:  # the usual case, in one kernel of a GPU
            return flat.reshape(*flat.shape[:-1], len(self.sizes), self.sizes[0]).sum(-1)
        return torch.stack([part.sum(-1) for part in self.parts(flat)], dim=-1)

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


@cache
def _owners(sizes: tuple[int, ...], device: torch.device) -> Tensor:
    """The number of the module that each knob belongs to, [R]."""
    return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)).to(device)


@dataclass(frozen=True)
class Basis:
    """`left` U [out, r], `values` S [r] from large to small and `right` Vh [r, in], all float32; r = min(out, in).

    A singular value of almost 0 has no direction of its own: it is 0 here, and so is its row of Vh.
    """

    left: Tensor
    values: Tensor
    right: Tensor


def decompose(weight: Tensor) -> Basis:
    """The bases of a weight [out, in], by the eigenvectors of W W^T (or W^T W, if smaller) in float64.

    The sign of each direction is set: the largest entry of its shorter vector is positive.
    """
    exact = weight.detach().to(torch.float64)
    if not torch.isfinite(exact).all() or not exact.any():
        raise ValueError("the weight is zero or has entries that are not finite")
    is_wide = exact.shape[0] <= exact.shape[1]
    wide = exact if is_wide else exact.T
    eigenvalues, vectors = torch.linalg.eigh(wide @ wide.T)
    short = vectors.flip(1)
    largest = short.gather(0, short.abs().argmax(0, keepdim=True))
    short = short * torch.where(largest < 0, -1.0, 1.0)
    values = eigenvalues.flip(0).clamp(min=0).sqrt()
    values = torch.where(values > _NO_DIRECTION * values[0], values, torch.zeros_like(values))
    inverse = torch.where(values > 0, 1 / values, torch.zeros_like(values))
    long = (short.T @ wide) * inverse[:, None]
    left, right = (short, long) if is_wide else (long.T, short.T)
    basis = Basis(left.float().contiguous(), values.float(), right.float().contiguous())
    error = float((exact.float() - (basis.left * basis.values) @ basis.right).norm() / exact.float().norm())
    if not error < LARGEST_ERROR:
        raise ValueError(f"U S Vh differs from the weight by {error:.1e} of its norm; at most {LARGEST_ERROR} may be")
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
    if missing := set(targets) - {name.rpartition(".")[2] for name in weights}:
        raise ValueError(f"model.targets: the model has no Linear {min(missing)!r}")
    found: dict[str, Basis] = {}
    for number, (name, weight) in enumerate(weights.items(), 1):
        path = folder / f"{weight_hash(weight)}.safetensors"
        if path.is_file():
            found[name] = Basis(**load_file(path, device=str(weight.device)))
        else:
            found[name] = decompose(weight)
            write_atomic(path, save(vars(found[name])))
        on_module(number, len(weights))
    return found


class Adapter:
    """Hooks on the target Linears of a model, whose own parameters it freezes.

    `layout` is that of the knobs, `inputs` that of the modules' inputs.
    """

    def __init__(self, model: nn.Module, bases: Mapping[str, Basis]) -> None:
        model.requires_grad_(False)
        weights = [model.get_parameter(f"{name}.weight") for name in bases]
        self.layout = KnobLayout(tuple(len(basis.values) for basis in bases.values()))
        self.inputs = KnobLayout(tuple(weight.shape[1] for weight in weights))
        self.device, self._dtype = weights[0].device, weights[0].dtype
        self._bases = [(basis.left.to(weights[0]), basis.right.to(weights[0])) for basis in bases.values()]
        self._parts: tuple[Tensor, ...] = ()
        self._places: Tensor | None = None  # the share of each position in the mean of the inputs, [B, T]
        self._means: list[Tensor] = []
        for number, name in enumerate(bases):
            model.get_submodule(name).register_forward_hook(partial(self._add, number))

    def zeros(self) -> Tensor:
        return torch.zeros(self.layout.total, device=self.device)

    @contextmanager
    def active(self, knobs: Tensor, where: Tensor | None = None) -> Iterator[list[Tensor]]:
        """With these knobs: [R] for all rows of a batch, or [B, R], each row its own.

        With `where` [B, T], one forward pass within fills the list with each module's mean input at these positions,
        [B, in].
        """
        knobs = knobs.to(self._dtype)
        self._parts, self._means = self.layout.parts(knobs if knobs.dim() == 1 else knobs[:, None, :]), []
        self._places = None if where is None else (where / where.sum(1, keepdim=True)).float()
        try:
            yield self._means
        finally:
            self._parts, self._places = (), None

    def _add(self, number: int, linear: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        x = inputs[0]
        if self._places is not None:
            self._means.append(torch.einsum("bt,btd->bd", self._places, x.detach().float()))
        if not self._parts:
            return output
        left, right = self._bases[number]
        return output + ((x @ right.T) * self._parts[number].to(x)) @ left.T
