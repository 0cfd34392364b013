r"""Kernel regression beyond memory: products with a kernel whose blocks are computed and forgotten.

$(\Theta + \rho)\,\alpha = y$ is solved by conjugate gradients. They are preconditioned by a few columns of the kernel,
$\Theta \approx AA^\top$ with $A$ of shape `(n, rank)`, which catches its large eigenvalues.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from secant.core.arguments import whole
from secant.core.progress import Progress, resolve
from secant.kernels.infinite_width import Only, checked_inputs, kernel
from secant.kernels.pairs.blocks import How, block_size, compiled_products
from secant.kernels.propagation.needs import planned
from secant.linalg import Operator
from secant.nets.network import Network


class Solution(NamedTuple):
    r"""Coefficients of a kernel machine.

    Attributes:
        coefficients: $\alpha$, of the shape of the targets.
        residual: $|y - (\Theta + \rho)\alpha|/|y|$, the largest over outputs.
        products: products with the kernel spent.
        converged: whether the tolerance was reached.
    """

    coefficients: Array
    residual: float
    products: int
    converged: bool


def _how(function: str, net: Network, x: Array, symmetric: bool, only: Only, memory: int | None) -> How:
    if only not in ("nngp", "ntk"):
        raise ValueError(f"{function}: `only` must be 'nngp' or 'ntk', got {only!r}.")
    if x.ndim > 2 and any(need.full for need in planned(net).before.values()):
        raise ValueError(
            f"{function}: {net.name} mixes positions, and its kernel is too dear to compute for every product. Use "
            "stored_kernel, which computes it once, on disk."
        )
    return How(net, False, symmetric, only == "ntk", block_size(x, False, memory))


def kernel_operator(net: Network, x: Any, *, only: Only = "ntk", memory: int | None = None) -> Operator:
    """The kernel among samples as an operator: `top`, `trace` and `density` work without the matrix.

    Args:
        net: a network without pools behind its weights.
        x: samples, shape `(n, ...)`.
        only: which kernel.
        memory: bytes that blocks may take, as for [`kernel`][secant.kernels.kernel].
    """
    x, _ = checked_inputs(net, x, None)
    times = compiled_products(_how("kernel_operator", net, x, True, only, memory), only)
    space = jax.ShapeDtypeStruct((len(x),), x.dtype)
    return Operator(lambda x: lambda v: times(x, x, v[:, None])[:, 0], x, space, space, name="kernel_operator")


def kernel_product(
    net: Network, x1: Any, x2: Any, vectors: Any, *, only: Only = "ntk", memory: int | None = None
) -> Array:
    """The kernel between two sets of samples times vectors of shape `(n2,)` or `(n2, k)`, block by block."""
    x1, x2 = checked_inputs(net, x1, x2)
    vectors = jnp.asarray(vectors, x1.dtype)
    if len(vectors) != len(x2):
        raise ValueError(
            f"kernel_product: `vectors` must have one row for each of {len(x2)} samples, got {len(vectors)}."
        )
    times = compiled_products(_how("kernel_product", net, x1, False, only, memory), only)
    return times(x1, x2, vectors.reshape(len(vectors), -1)).reshape(len(x1), *vectors.shape[1:])


def kernel_solve(
    net: Network,
    x: Any,
    y: Any,
    *,
    ridge: float,
    only: Only = "ntk",
    tolerance: float = 1e-4,
    rank: int = 200,
    products: int = 500,
    memory: int | None = None,
    progress: Progress | None = None,
) -> Solution:
    r"""Coefficients $(\Theta + \rho)^{-1}y$ of kernel ridge regression, without ever holding the kernel.

    Args:
        net: a network without pools behind its weights.
        x: samples, shape `(n, ...)`.
        y: targets, shape `(n,)` or `(n, outputs)`.
        ridge: $\rho$, above 0.
        only: which kernel.
        tolerance: residual at which to stop, relative to the targets.
        rank: columns of the kernel that precondition; they are held, shape `(n, rank)`.
        products: products with the kernel at most.
        memory: bytes that blocks may take, as for [`kernel`][secant.kernels.kernel].
        progress: what shows how far it is; by default what shows all long work.

    Example:
        ```python
        import jax
        import secant as sc
        from secant.kernels import kernel_product, kernel_solve

        net = sc.nets.mlp([64], activation="relu", bias=True)
        x = jax.random.normal(jax.random.key(0), (300, 5))
        y = x[:, 0] * x[:, 1]
        found = kernel_solve(net, x[:250], y[:250], ridge=0.01)
        print(found.converged, kernel_product(net, x[250:], x[:250], found.coefficients).shape)
        ```
        ```text
        True (50,)
        ```
    """
    x, _ = checked_inputs(net, x, None)
    y = jnp.asarray(y, x.dtype)
    if y.ndim not in (1, 2) or len(y) != len(x):
        raise ValueError(f"kernel_solve: `y` must have one row for each of {len(x)} samples, got shape {y.shape}.")
    if not np.isfinite(np.asarray(y)).all():
        raise ValueError("kernel_solve: `y` must hold finite numbers.")
    if not (math.isfinite(ridge) and ridge > 0):
        raise ValueError(f"kernel_solve: `ridge` must be a number above 0, got {ridge!r}.")
    times = compiled_products(_how("kernel_solve", net, x, True, only, memory), only)
    inverse = _preconditioner(net, x, min(whole("kernel_solve", "rank", rank), len(x)), ridge, only)
    targets = np.asarray(y, np.float64).reshape(len(y), -1)
    sizes = np.maximum(np.linalg.norm(targets, axis=0), 1e-300)

    def product(columns: np.ndarray) -> np.ndarray:
        # Only the kernel is in the samples' precision: vectors are scaled for it, and kept in double.
        lengths = np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
        return np.asarray(times(x, x, jnp.asarray(columns / lengths, x.dtype)), np.float64) * lengths

    shown = resolve(progress)
    shown.start("solve", whole("kernel_solve", "products", products))
    found, left = np.zeros_like(targets), targets.copy()
    direction = step = inverse(left)
    power, spent, residual = np.sum(left * step, 0), 0, 1.0
    try:
        while spent < products and residual > tolerance:
            image = product(direction) + ridge * direction
            length = power / np.maximum(np.sum(direction * image, 0), 1e-300)
            found, left = found + length * direction, left - length * image
            step = inverse(left)
            grown = np.sum(left * step, 0)
            direction, power = step + grown / np.maximum(power, 1e-300) * direction, grown
            spent += 1
            residual = float(np.max(np.linalg.norm(left, axis=0) / sizes))
            shown.update(spent, f"residual {residual:.1e}")
    finally:
        shown.close()
    return Solution(jnp.asarray(found.reshape(y.shape), y.dtype), residual, spent, residual <= tolerance)


def _preconditioner(net: Network, x: Array, rank: int, ridge: float, only: Only) -> Any:
    r"""$v \mapsto (AA^\top + \rho)^{-1}v$ in double; $AA^\top$ is the kernel as its columns at some samples know it."""
    # Samples at equal distances in their order: no draw, so that every run is the same.
    few = x[np.unique(np.linspace(0, len(x) - 1, rank).astype(int))]
    values, vectors = np.linalg.eigh(np.asarray(getattr(kernel(net, few, only=only), only), np.float64))
    kept = values > 10 * len(values) * float(jnp.finfo(x.dtype).eps) * values[-1]
    turned = vectors[:, kept] / np.sqrt(values[kept])
    blocks = range(0, len(x), 1024)
    rows = [np.asarray(getattr(kernel(net, x[at : at + 1024], few, only=only), only)) @ turned for at in blocks]
    a = np.concatenate(rows)
    # By the singular values of A: nothing cancels.
    squares, turns = np.linalg.eigh(a.T @ a)
    shares = 1 / (np.maximum(squares, 0) + ridge)

    def inverse(columns: np.ndarray) -> np.ndarray:
        along = turns.T @ (a.T @ columns)
        return (columns - a @ (turns @ (shares[:, None] * along))) / ridge

    return inverse


__all__ = ["Solution", "kernel_operator", "kernel_product", "kernel_solve"]
