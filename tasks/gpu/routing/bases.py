"""The singular bases of a Linear's weight, W = U S Vh, kept in a folder under the hash of W."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from tasks.common.files import write_atomic

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

    @property
    def rank(self) -> int:
        return len(self.values)

    def error(self, weight: Tensor) -> float:
        """The norm of W - U S Vh over the norm of W."""
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
    """What tells one weight from another: shape, type and every bit."""
    data = weight.detach().cpu().contiguous()
    described = f"{tuple(data.shape)} {data.dtype}".encode()
    return hashlib.sha256(described + data.view(torch.uint8).numpy().tobytes()).hexdigest()


def cached_basis(weight: Tensor, folder: Path) -> tuple[Basis, bool]:
    """The bases of a weight, from the folder if they are there, else computed and put there; and whether they were.

    They lie on the weight's device.
    """
    from safetensors.torch import load_file, save

    path = folder / f"{weight_hash(weight)}.safetensors"
    if path.is_file():
        found = load_file(path, device=str(weight.device))
        return Basis(found["left"], found["values"], found["right"]), True
    basis = decompose(weight)
    write_atomic(path, save({"left": basis.left, "values": basis.values, "right": basis.right}))
    return basis, False
