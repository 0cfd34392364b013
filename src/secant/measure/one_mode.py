r"""The mode of the tangent kernel that meets the edge of stability, followed along a run.

For a squared loss $L = \frac c2|f - y|^2$ put $z = \sqrt c\,(f - y)$ and $J = \partial z/\partial\theta$. Then
$L = \frac12|z|^2$, the tangent kernel is $K = JJ^\top$, and gradient descent is stable along an eigenvector while
$\eta\lambda < 2$. A step changes the component $z_1$ along the top eigenvector $v_1$ by $-\eta\lambda_1z_1$. At second
order $z_1$ alone adds the change $\frac12\eta^2Q_1(w, w)$ with $Q_1 = v_1\cdot\partial^2z/\partial\theta^2$ and
$w = J^\top v_1z_1$.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from secant.core.arguments import whole
from secant.curvature.tangent.signals import network_of
from secant.curvature.tangent.tangent_kernel import ntk, pair_kernel
from secant.dynamics.probes import Probe
from secant.expansion import Expansion
from secant.linalg import Ritz, block_lanczos
from secant.losses import Loss as SquaredLoss
from secant.measure.polynomial_kernel import has_structure, polynomial_kernel
from secant.optim.measurement import Measurement, measurement
from secant.optim.problem import Problem

DENSE_ROWS = 64
"""Up to this size all eigenvalues of a kernel are computed, which takes less time than compiling a search."""


def leading_mode(
    k: int = 2, *, every: int = 1, tol: float = 1e-4, max_products: int = 400, above: float = 0.0, bend: bool = True
) -> Measurement:
    r"""The mode of the tangent kernel that meets the edge of stability, for a squared loss.

    Everything is in units in which the loss is $\frac12|z|^2$, so that the edge is at $2/\eta$. The measurement records
    the `k` largest eigenvalues of $JJ^\top$. It also follows one mode, the largest at the first look, from look to look
    by the overlap of eigenvectors. For this mode it records

    - `_followed`: its eigenvalue;
    - `_along`: the residual $z_1$ along it;
    - `_overlap`: the overlap of its eigenvector with the last look;
    - `_bend`: $Q_1(w, w)$ with $w = J^\top v_1z_1$. In a step $z_1$ changes by $-\eta\lambda_1z_1$ and, from itself
      alone, by $\frac12\eta^2Q_1(w, w)$.

    Args:
        k: how many eigenvalues; at least two show a crossing.
        every: steps between two measurements.
        tol: estimated error relative to the largest eigenvalue.
        max_products: the most kernel products of one measurement.
        above: the mode is followed from the first look at which the largest eigenvalue is above this, because on the
            way to the edge another mode may be the largest. Until then every look takes the largest mode anew, and
            `_overlap` is 0.
        bend: whether to measure `_bend`, which takes a second derivative.
    """
    return measurement(
        _probe,
        k=whole("leading_mode", "k", k),
        every=every,
        tol=tol,
        max_products=max_products,
        above=above,
        bend=bend,
    )


def _probe(problem: Problem, k: int, every: int, tol: float, max_products: int, above: float, bend: bool) -> Probe:
    """The probe of [`leading_mode`][secant.measure.leading_mode]."""
    if not isinstance(problem.loss, SquaredLoss) or problem.loss.weight is None:
        raise ValueError("leading_mode: `loss` of the problem must be one of the squared losses of secant.losses.")
    if not above >= 0:
        raise ValueError(f"leading_mode: `above` is {above!r}; it must be a curvature, 0 or more.")
    loss = problem.loss

    def look(params: Any, memory: tuple[Array, Array]) -> tuple[dict[str, Array], tuple[Array, Array]]:
        warm, last = memory
        outputs = problem.f(params, problem.x)
        scale: Any = loss.curvature(outputs)
        found = _largest(problem, params, warm, tol, max_products)
        # The mode is found by overlap, not by rank: when two eigenvalues cross, it keeps its eigenvector.
        overlaps = found.vectors @ last
        chosen = jnp.argmax(jnp.abs(overlaps))
        vector = found.vectors[chosen] * jnp.where(overlaps[chosen] < 0, -1.0, 1.0)
        along = jnp.sqrt(scale) * jnp.vdot(vector, (outputs - problem.y).reshape(-1))
        record = {
            "value": scale * found.values,
            "error": scale * found.errors,
            "products": found.products,
            "followed": scale * found.values[chosen],
            "along": along,
            "overlap": jnp.abs(overlaps[chosen]),
        }
        if bend:
            record["bend"] = _bend(problem, params, vector.reshape(outputs.shape), along, jnp.sqrt(scale))
        usable = jnp.all(jnp.isfinite(found.vectors))
        begun = jnp.any(last) | (scale * found.values[0] > above)
        return record, (jnp.where(usable, found.vectors, warm), jnp.where(usable & begun, vector, last))

    def memory(params: Any) -> tuple[Array, Array]:
        outputs = jax.eval_shape(problem.f, params, problem.x)
        warm = jax.random.normal(jax.random.key(0), (min(k, outputs.size), outputs.size), outputs.dtype)
        # No vector overlaps with zero: until a mode is followed, a look takes the largest.
        return warm, jnp.zeros(outputs.size, outputs.dtype)

    return Probe(look, every, label="eigenvalues of the tangent kernel", dims=("mode",), memory=memory)


def _largest(problem: Problem, params: Any, warm: Array, tol: float, max_products: int) -> Ritz:
    """As many of the kernel's largest eigenvalues as there are rows in `warm`, with their vectors."""
    k, rows = warm.shape
    # Entries are computed sample by sample, which is right for Secant's networks and therefore for their polynomials.
    inner = problem.f.f if isinstance(problem.f, Expansion) else problem.f
    if rows > DENSE_ROWS or network_of(inner) is None:
        operator = ntk(problem.f, params, problem.x)
        return block_lanczos(operator.flat_product(), warm, k, tol=tol, max_products=max_products)
    if isinstance(problem.f, Expansion) and has_structure(problem.f, params, problem.x):
        kernel = polynomial_kernel(problem.f, params, problem.x)
    else:
        kernel = pair_kernel(problem.f)(params, problem.x, None)
    values, vectors = jnp.linalg.eigh(kernel)
    exact = jnp.zeros(k, values.dtype)
    return Ritz(values[::-1][:k], vectors.T[::-1][:k], exact, exact, jnp.asarray(rows), jnp.asarray(True))


def _bend(problem: Problem, params: Any, vector: Array, along: Array, root: Array) -> Array:
    r"""$Q_1(w, w)$: the second derivative of $s \mapsto v_1\cdot z(\theta + sw)$."""
    _, pull = jax.vjp(lambda p: problem.f(p, problem.x), params)
    direction = jax.tree.map(lambda leaf: root * along * leaf, pull(vector)[0])

    def slope(p: Any) -> Array:
        return root * jnp.vdot(vector, jax.jvp(lambda q: problem.f(q, problem.x), (p,), (direction,))[1])

    return jax.jvp(slope, (params,), (direction,))[1]
