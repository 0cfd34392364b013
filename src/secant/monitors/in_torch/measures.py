r"""The numbers of one look at a PyTorch run, from a gradient and a few products.

They belong to a *view*: a model and a batch in one or more parts, on one or more processes. The loss is the mean over
parts and processes, so a batch that is cut into pieces has the curvature of the whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from secant.monitors.base import described
from secant.monitors.in_torch.looks import LookError, Looks
from secant.monitors.in_torch.ranks import Ranks
from secant.monitors.in_torch.snapshot import mapped, rows, samples_of
from secant.monitors.sampling import ROUGH, SAME, refused

NEAR = 0.03
"""The search for the sharpness ends when its relative error is below this."""

LEAST = 3
"""Smallest number of products in a search, so that the search goes on from look to look."""

PIECES = 2
"""Number of pieces into which every process cuts a batch to measure gradient noise."""


class View:
    """Derivatives of the mean loss over the parts of a batch and over all processes.

    Args:
        looks: the looks at the model.
        parts: batches; several if gradients are accumulated.
        ranks: the processes.
        at: a vector of parameters, in place of the model's own.
    """

    def __init__(self, looks: Looks, parts: Sequence[Any], ranks: Ranks, at: Tensor | None = None) -> None:
        self.looks, self.parts, self.ranks, self.at = looks, parts, ranks, at
        self._slope: tuple[float, Tensor] | None = None

    @property
    def samples(self) -> int | None:
        """The number of samples in all parts and processes; None where a batch does not tell."""
        counts = [samples_of(part) for part in self.parts]
        return None if None in counts else sum(count or 0 for count in counts) * self.ranks.size

    @property
    def slope(self) -> tuple[float, Tensor]:
        """The loss and its gradient, computed once."""
        if self._slope is None:
            self._slope = self.gradient(self.parts)
        return self._slope

    def gradient(self, parts: Sequence[Any]) -> tuple[float, Tensor]:
        """The mean loss of batches and its gradient."""
        like = self.looks.flat()

        def local() -> Tensor:
            found = [self.looks.gradient(part, self.at) for part in parts]
            loss = sum(value for value, _ in found) / len(found)
            return torch.cat([like.new_tensor([loss]), _mean([slope for _, slope in found])])

        both = self.looks.averaged(self.ranks, local, torch.cat([like[:1], like]))
        return float(both[0]), both[1:]

    def along(self, v: Tensor) -> float:
        r"""$v^\top Hv$."""

        def local() -> Tensor:
            return v.new_tensor([sum(self.looks.along(v, part, self.at) for part in self.parts) / len(self.parts)])

        return float(self.looks.averaged(self.ranks, local, v[:1]))

    def slope_along(self, v: Tensor) -> float:
        r"""$g^\top v$."""
        return self.dot(self.slope[1], v)

    def product(self, v: Tensor) -> Tensor:
        r"""The product $Hv$ of the Hessian with a vector."""
        return self.looks.averaged(
            self.ranks, lambda: _mean([self.looks.product(v, part, self.at) for part in self.parts]), v
        )

    def dot(self, a: Tensor, b: Tensor) -> float:
        """The inner product of two vectors."""
        return self.looks.dot(a, b)


def _mean(vectors: Sequence[Tensor]) -> Tensor:
    return vectors[0] if len(vectors) == 1 else torch.stack(list(vectors)).mean(0)


def batch_sharpness(view: View, given: Tensor | None = None) -> dict[str, float]:
    r"""The curvature $g^\top Hg/|g|^2$ of the batch, its loss, and the lengths of gradient and parameters.

    Args:
        view: the view of the batch.
        given: the gradient, if the loop has it; the loss is then left out.
    """
    loss, slope = view.slope if given is None else (None, given)
    square = view.dot(slope, slope)
    here = view.looks.flat() if view.at is None else view.at
    found = {} if loss is None else {"loss": loss}
    found |= {
        "gradient_norm": math.sqrt(square),
        "parameter_norm": math.sqrt(view.dot(here, here)),
        "batch_sharpness": math.nan,
    }
    if math.isfinite(square) and square > 0:
        unit = slope / math.sqrt(square)  # of length one, so that no power of it overflows
        found["batch_sharpness"] = view.along(unit)
    # The bias and the scale of a unit that is off on the whole batch have a gradient of exactly zero.
    off = view.looks.off(slope)
    if off.numel():
        found["dead_units"] = float(off.double().mean())
    return found


def along_update(view: View, update: Tensor) -> dict[str, float]:
    r"""The curvature $u^\top Hu/|u|^2$ along an update, and how much longer it could be, $-2g^\top u/u^\top Hu$."""
    length = math.sqrt(view.dot(update, update))
    found = {"update_norm": length, "update_curvature": math.nan, "stable_multiple": math.nan}
    if not math.isfinite(length) or length == 0:
        return found
    unit = update / length
    bend, slope = view.along(unit), view.slope_along(unit)
    multiple = -2 * slope / (bend * length) if bend > 0 else math.inf
    return found | {"update_curvature": bend, "stable_multiple": multiple if not math.isnan(bend) else math.nan}


class Top(NamedTuple):
    """The largest eigenvalue found, its error, its vector, and the number of products."""

    value: float
    error: float
    vector: Tensor
    products: int


def largest(view: View, start: Tensor, scale: Tensor | None, products: int, tol: float = NEAR) -> Top:
    r"""The largest eigenvalue of $SHS$ by Lanczos' method, orthogonal to rounding.

    Args:
        view: the view whose Hessian is $H$.
        start: the first vector, such as the last eigenvector.
        scale: the diagonal $S = P^{-1/2}$, or None for the identity.
        products: the largest number of products.
        tol: relative error at which the search ends.
    """
    basis: list[Tensor] = []
    diagonal: list[float] = []
    beside: list[float] = []
    vector = start / math.sqrt(view.dot(start, start))
    while True:
        basis.append(vector)
        image = view.product(vector if scale is None else scale * vector)
        image = image if scale is None else scale * image
        diagonal.append(view.dot(vector, image))
        for _ in range(2):  # twice is enough
            for other in basis:
                image = image - view.dot(other, image) * other
        length = math.sqrt(view.dot(image, image))
        matrix = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
        if beside:
            off = torch.tensor(beside, dtype=torch.float64)
            matrix = matrix + torch.diag(off, 1) + torch.diag(off, -1)
        if not bool(torch.isfinite(matrix).all()) or not math.isfinite(length):
            return Top(math.nan, math.nan, start, len(basis))
        values, vectors = torch.linalg.eigh(matrix)
        value, weights = float(values[-1]), vectors[:, -1]
        error = abs(length * float(weights[-1]))
        span = float(values.abs().max())
        near = error <= tol * abs(value) and len(basis) >= LEAST
        if near or len(basis) >= products or length <= 1e-6 * span:
            mixed = sum(float(weight) * one for weight, one in zip(weights, basis, strict=True))
            assert isinstance(mixed, Tensor)
            return Top(value, error, mixed, len(basis))
        beside.append(length)
        vector = image / length


def noise(view: View) -> tuple[float, float]:
    r"""Unbiased estimates of $\mathrm{tr}\,\Sigma$ for one sample and of $|g|^2$, from pieces of a batch.

    Pieces of $b$ samples have $E|g_b|^2 = |g|^2 + \mathrm{tr}\,\Sigma/b$. The same equation holds for all $B$ samples,
    and both unknowns follow.
    """
    pieces, size = _pieces(view)
    like = view.looks.flat()

    def local() -> Tensor:
        slopes = [view.looks.gradient(piece, view.at)[1] for piece in pieces]
        squares = sum(view.dot(slope, slope) for slope in slopes) / len(slopes)
        return torch.cat([like.new_tensor([squares]), _mean(slopes)])

    both = view.looks.averaged(view.ranks, local, torch.cat([like[:1], like]))
    few, whole = float(both[0]), view.dot(both[1:], both[1:])
    small, total = size * view.looks.spans, size * len(pieces) * view.ranks.size
    trace = (few - whole) / (1 / small - 1 / total)
    return trace, whole - trace / total


def _pieces(view: View) -> tuple[list[Any], int]:
    """A batch in pieces of one size: its own parts if there are several, else equal shares of its rows."""
    counts = [samples_of(part) for part in view.parts]
    if None in counts:
        raise LookError("the batch cannot be cut into samples: its tensors have first axes of different lengths.")
    first = counts[0] or 0
    if len(counts) > 1 and set(counts) == {first}:
        return list(view.parts), first
    many = min(PIECES, first)
    if many * view.ranks.size // view.looks.spans < 2:
        raise LookError("a batch of one sample shows no gradient noise.")
    each = first // many
    return [rows(view.parts[0], number * each, (number + 1) * each) for number in range(many)], each


def why_whole(view: View) -> str:
    """A sentence that says why looks need the whole batch; empty if its parts are like the whole."""
    batch = view.parts[0]
    half = (samples_of(batch) or 0) // 2
    if not half:
        return "the batch has no axis of samples."
    if any(isinstance(one, nn.modules.batchnorm._BatchNorm) and one.training for one in view.looks.model.modules()):
        return "batch norms mix samples."

    def loss(*begins: int) -> float:
        def joined(leaf: Tensor) -> Tensor:
            return torch.cat([leaf[begin : begin + half] for begin in begins]) if leaf.ndim else leaf

        return view.looks.value(mapped(joined, batch))

    try:
        far = any(one.device.type != "cpu" for one in view.looks.model.parameters())
        same = ROUGH if far else SAME
        return refused(loss(0, half), loss(half, 0), loss(0, 0), loss(half, half), loss(0), loss(half), same)
    except Exception as error:
        return f"half of the batch has no loss: {described(error)}"
