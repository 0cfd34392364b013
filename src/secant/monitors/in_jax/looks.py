r"""Looks as functions of arrays: the curvature along directions, the largest curvature, and the noise.

All functions take `loss`, a function of a list of arrays $\theta$ with a fixed batch, and can be traced. Second
derivatives have three rungs, and the first that works is taken:

* forward over forward along a direction, and forward over reverse for a product,
* reverse over reverse, for functions without forward derivatives,
* a difference of gradients.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

Theta = list[Array]
Scalar = Callable[[Theta], Array]

RUNGS = ("forward", "reverse", "difference")
"""Ways to a second derivative, the best one first."""

ROUND = 3
"""Products with the Hessian between two restarts of the search for the largest curvature."""

NEAR = 0.03
"""The search ends when its relative error is below this."""


def dot(a: Theta, b: Theta) -> Array:
    """Inner product of two lists of arrays."""
    return functools.reduce(operator.add, (jnp.vdot(x, y) for x, y in zip(a, b, strict=True)))


def norm(v: Theta) -> Array:
    """The length of a list of arrays; it overflows or underflows only if the number itself does."""
    largest = functools.reduce(jnp.maximum, (jnp.max(jnp.abs(x), initial=0) for x in v))
    usable = (largest > 0) & jnp.isfinite(largest)
    scale = jnp.where(usable, largest, 1)
    return scale * jnp.sqrt(functools.reduce(operator.add, (jnp.sum((x / scale) ** 2) for x in v)))


def unit(v: Theta) -> tuple[Theta, Array]:
    """The vector of length 1 in the same direction, and the length; zero stays zero."""
    size = norm(v)
    return [x / jnp.where(size > 0, size, 1) for x in v], size


def along(loss: Scalar, theta: Theta, v: Theta, rung: str) -> tuple[Array, Array, Array]:
    r"""$L$, $g^\top v$ and $v^\top Hv$."""
    dtype = jnp.result_type(*theta)
    if rung == "forward":

        def line(t: Array) -> tuple[Array, Array]:
            moved = lambda s: loss([x + s * y for x, y in zip(theta, v, strict=True)])  # noqa: E731
            return jax.jvp(moved, (t,), (jnp.ones((), dtype),))

        (value, slope), (_, bend) = jax.jvp(line, (jnp.zeros((), dtype),), (jnp.ones((), dtype),))
        return value, slope, bend
    value, gradient = jax.value_and_grad(loss)(theta)
    _, times = product(loss, theta, rung)
    return value, dot(gradient, v), dot(v, times(v))


def product(loss: Scalar, theta: Theta, rung: str) -> tuple[Theta, Callable[[Theta], Theta]]:
    r"""The gradient, and $v \mapsto Hv$."""
    slope = jax.grad(loss)
    if rung == "forward":
        return jax.linearize(slope, theta)
    if rung == "reverse":
        gradient, pull = jax.vjp(slope, theta)
        return gradient, lambda v: pull(v)[0]

    def difference(v: Theta) -> Theta:
        direction, size = unit(v)
        # Rounding and curvature of the gradient balance at the cube root of a unit in the last place.
        h = jnp.finfo(jnp.result_type(*theta)).eps ** (1 / 3) * jnp.maximum(norm(theta), 1)
        there, back = (slope([x + s * h * y for x, y in zip(theta, direction, strict=True)]) for s in (1, -1))
        return [size * (a - b) / (2 * h) for a, b in zip(there, back, strict=True)]

    return slope(theta), difference


def rung_of(loss: Callable[..., Array], *arguments: Any) -> str:
    """The first rung that gives second derivatives of a loss, found by tracing alone.

    Args:
        loss: `(theta, ...) -> number`.
        arguments: theta and the other arguments.
    """
    for rung in RUNGS[:-1]:

        def attempt(theta: Theta, *rest: Any, rung: str = rung) -> Any:
            at = lambda one: loss(one, *rest)  # noqa: E731
            _, times = product(at, theta, rung)
            return along(at, theta, theta, rung), times(theta)

        try:
            jax.eval_shape(attempt, *arguments)
        except Exception:  # any error of a library's rule without such a derivative
            continue
        return rung
    return RUNGS[-1]


def batch_look(
    loss: Scalar, theta: Theta, gradient: Theta | None, rung: str, units: Sequence[Sequence[int]] = ()
) -> dict[str, Array]:
    r"""The curvature of the batch along its own gradient, $g_b^\top H_bg_b/|g_b|^2$, which SGD keeps below $2/\eta$.

    Args:
        loss: the loss of the batch.
        theta: the parameters.
        gradient: the gradient of the batch, if the loop has it.
        rung: the way to second derivatives.
        units: for every layer, the places in theta of its biases and scales, which have one entry a unit.
    """
    g = jax.grad(loss)(theta) if gradient is None else gradient
    direction, size = unit(g)
    value, _, bend = along(loss, theta, direction, rung)
    found = {
        "loss": value,
        "gradient_norm": size,
        "parameter_norm": norm(theta),
        "batch_sharpness": jnp.where(size > 0, bend, jnp.nan),
    }
    # The bias and the scale of a unit that is off on the whole batch have a gradient of exactly zero.
    off = [functools.reduce(operator.and_, (g[place] == 0 for place in layer)) for layer in units]
    if off:
        found["dead_units"] = functools.reduce(operator.add, map(jnp.sum, off)) / sum(one.size for one in off)
    return found


def update_look(loss: Scalar, theta: Theta, after: Theta, rung: str) -> dict[str, Array]:
    r"""The batch along its own update $u$: the curvature $u^\top H_bu/|u|^2$, and the factor $-2g^\top u/u^\top H_bu$.

    Args:
        loss: the loss of the batch from which the update was made.
        theta: the parameters before the update.
        after: the parameters after the update.
        rung: the way to second derivatives.
    """
    direction, size = unit([y - x for x, y in zip(theta, after, strict=True)])
    _, slope, bend = along(loss, theta, direction, rung)
    moved = size > 0
    reach = jnp.where(bend > 0, -2 * slope / jnp.where(bend > 0, bend, 1) / jnp.where(moved, size, 1), jnp.inf)
    return {
        "update_norm": size,
        "update_curvature": jnp.where(moved, bend, jnp.nan),
        "stable_multiple": jnp.where(moved & ~jnp.isnan(bend), reach, jnp.nan),
    }


def sharpness_look(
    loss: Scalar, theta: Theta, divided: Callable[[Theta], Theta | None], start: Theta, rung: str
) -> tuple[dict[str, Array], Theta]:
    r"""The largest eigenvalue of $P^{-1/2}HP^{-1/2}$, by one more round of a search.

    It also gives the share of the squared gradient, in the same measure, along the eigenvector.

    One call is one round of Lanczos' method, with three products. The next call goes on from the vector that this one
    returns. The products are written out one after another, because in a compiled loop convolutions on a processor take
    ten times as long.

    Args:
        loss: the loss of the batch.
        theta: the parameters.
        divided: gradient $\mapsto P$, the diagonal that divides the next step, or None for the identity.
        start: the last vector, or any vector.
        rung: the way to second derivatives.

    Returns:
        The numbers, and the vector from which the next call goes on.
    """
    gradient, times = product(loss, theta, rung)
    by = divided(gradient)
    roots = None if by is None else [1 / jnp.sqrt(p).astype(x.dtype) for p, x in zip(by, theta, strict=True)]

    def preconditioned(v: Theta) -> Theta:
        if roots is None:
            return times(v)
        image = times([r * x for r, x in zip(roots, v, strict=True)])
        return [r * x for r, x in zip(roots, image, strict=True)]

    if roots is not None:  # no component along parameters that the optimiser does not move
        start = [jnp.where(r > 0, x, 0) for r, x in zip(roots, start, strict=True)]
    first = unit(start)[0]
    vector, value, error = _lanczos(preconditioned, first)
    usable = functools.reduce(operator.and_, (jnp.isfinite(x).all() for x in vector))
    # A run that blows up leaves no direction: the next look starts from the old vector.
    kept = [jnp.where(usable, new, old) for new, old in zip(vector, first, strict=True)]
    slope = gradient if roots is None else [r * x for r, x in zip(roots, gradient, strict=True)]
    direction, size = unit(slope)
    share = jnp.where((size > 0) & usable, dot(direction, vector) ** 2, jnp.nan)
    return {"sharpness": value, "sharpness_error": error, "sharpest_share": share}, kept


def _lanczos(times: Callable[[Theta], Theta], v: Theta) -> tuple[Theta, Array, Array]:
    """The best vector after a few products from `v`, its value, and the largest distance to an eigenvalue."""
    dtype = jnp.result_type(*v)
    blank = [jnp.zeros((ROUND + 1, *x.shape), x.dtype).at[0].set(x) for x in v]
    square = jnp.zeros((ROUND, ROUND), dtype)

    def overlaps(basis: Theta, w: Theta) -> Array:
        parts = (jnp.tensordot(b, x, axes=x.ndim) for b, x in zip(basis, w, strict=True))
        return functools.reduce(operator.add, parts)

    def less(w: Theta, weights: Array, basis: Theta) -> Theta:
        return [x - jnp.tensordot(weights, b, axes=1) for x, b in zip(w, basis, strict=True)]

    def extend(number: int, carried: Any) -> Any:
        basis, matrix, _, alive = carried
        image = times([b[number] for b in basis])
        weights = overlaps(basis, image)
        rest = less(image, weights, basis)
        again = overlaps(basis, rest)  # twice is enough
        rest = less(rest, again, basis)
        following, size = unit(rest)
        # A rest that is only rounding is no direction: the space is exhausted, and its values are exact.
        real = size > 100 * jnp.finfo(dtype).eps * jnp.max(jnp.abs(weights))
        following, size = [jnp.where(real, x, 0) for x in following], jnp.where(real, size, 0)
        basis = [b.at[number + 1].set(x) for b, x in zip(basis, following, strict=True)]
        return basis, matrix.at[number].set((weights + again)[:ROUND]), size, alive.at[number + 1].set(real)

    alive = jnp.zeros(ROUND + 1, bool).at[0].set(True)
    carried = blank, square, jnp.zeros((), dtype), alive
    for number in range(ROUND):
        carried = extend(number, carried)
    basis, matrix, last, alive = carried
    # Unused rows must not look like eigenvalues of zero.
    beneath = -2 * jnp.max(jnp.abs(matrix)) - 1
    lower = jnp.tril(matrix) + jnp.diag(jnp.where(alive[:ROUND], 0, beneath))
    values, vectors = jnp.linalg.eigh(lower + jnp.tril(matrix, -1).T)
    best = vectors[:, -1]
    vector, _ = unit([jnp.tensordot(best, b[:ROUND], axes=1) for b in basis])
    finite = jnp.isfinite(matrix).all()
    value = jnp.where(finite, values[-1], jnp.nan)
    return vector, value, jnp.where(finite, jnp.abs(last * best[-1]), jnp.nan)


def noise_look(loss: Callable[[Theta, Any], Array], theta: Theta, halves: Any, samples: int) -> dict[str, Array]:
    r"""Unbiased estimates of $\mathrm{tr}\,\Sigma$ for one sample and of $|g|^2$, from two halves of a batch.

    If $g_1$ and $g_2$ are the gradients of the halves of $b$ samples, then
    $\mathrm{tr}\,\Sigma \approx b|g_1 - g_2|^2/4$ and $|g|^2 \approx |(g_1 + g_2)/2|^2 - |g_1 - g_2|^2/4$. Both are
    averaged over looks before they are divided.

    Args:
        loss: `(theta, batch) -> number`, a mean over samples.
        theta: the parameters.
        halves: a batch with an axis of two in front.
        samples: $b$, the number of samples in both halves.
    """
    one, two = (jax.grad(loss)(theta, jax.tree.map(lambda x, n=n: x[n], halves)) for n in (0, 1))
    apart = norm([(x - y) / 2 for x, y in zip(one, two, strict=True)]) ** 2
    mean = norm([(x + y) / 2 for x, y in zip(one, two, strict=True)]) ** 2
    return {"trace": samples * apart, "square": mean - apart}


def mark(arrays: Sequence[Array]) -> Array:
    """A number that identifies the samples of a batch in any order: a sum of mean sizes."""
    real = [x for x in arrays if jnp.issubdtype(x.dtype, jnp.number)]
    sizes = [jnp.mean(jnp.abs(x).astype(jnp.float32)) for x in real if x.size]
    return functools.reduce(operator.add, sizes, jnp.zeros((), jnp.float32))
