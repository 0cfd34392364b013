r"""Nullclines of the two-step dynamics: where two steps leave the residual, or the curvature, unchanged.

The two-step changes of the two-eigenvalue model $\{1, -\epsilon\}$ are cubics in $T$. The nullclines that
matter are their roots through $(\tilde z, T) = (0, 2)$, the edge of stability. At $\epsilon = 0$ both are
$2/(1-\tilde z)$; they separate linearly in $\epsilon$.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import jax.numpy as jnp
import numpy as np
from jax import Array

from secant.core.types import Real
from secant.theory.edge.two_step import P, Q


def residual_series(z: Real, eps: Real, order: int = 5) -> Array:
    r"""Power series of the residual's two-step nullcline,

    $$f_z = 2 + 2(1-\epsilon)\tilde z + 2(1-\epsilon+\epsilon^2)\tilde z^2
      + 2(1-\epsilon)(1-\epsilon+\epsilon^2)\tilde z^3
      + \tfrac12(2-3\epsilon+2\epsilon^2)^2\tilde z^4 + \dots$$

    It is accurate for $|\tilde z| \lesssim 0.1$; elsewhere use [`nullcline`][secant.theory.edge.nullclines.nullcline].

    Args:
        z: rescaled residual.
        eps: minus the second eigenvalue.
        order: last power kept, at most 5.

    Returns:
        Broadcast shape.
    """
    e = eps
    terms = (
        2.0,
        2 * (1 - e),
        2 * (1 - e + e**2),
        2 * (1 - e) * (1 - e + e**2),
        (2 - 3 * e + 2 * e**2) ** 2 / 2,
        (1 - e) * (8 - 24 * e + 35 * e**2 - 24 * e**3 + 8 * e**4) / 4,
    )
    return jnp.asarray(sum(c * z**k for k, c in enumerate(terms[: order + 1])))


def curvature_series(z: Real, eps: Real, order: int = 3) -> Array:
    r"""Power series of the curvature's two-step nullcline,

    $$f_T = 2 + \frac{2-3\epsilon+2\epsilon^2}{1-\epsilon}\tilde z
      + \tfrac12(4-\epsilon+4\epsilon^2)\tilde z^2
      + \frac{8-13\epsilon+18\epsilon^2-13\epsilon^3+8\epsilon^4}{4(1-\epsilon)}\tilde z^3 + \dots$$

    It differs from $f_z$ by $f_z - f_T = -\frac{\epsilon}{1-\epsilon}\tilde z - \tfrac32\epsilon\tilde z^2 - \dots$,
    linear in $\epsilon$.

    Args:
        z: rescaled residual.
        eps: minus the second eigenvalue.
        order: last power kept, at most 3.

    Returns:
        Broadcast shape.
    """
    e = eps
    terms = (
        2.0,
        (2 - 3 * e + 2 * e**2) / (1 - e),
        (4 - e + 4 * e**2) / 2,
        (8 - 13 * e + 18 * e**2 - 13 * e**3 + 8 * e**4) / (4 * (1 - e)),
    )
    return jnp.asarray(sum(c * z**k for k, c in enumerate(terms[: order + 1])))


def skeleton_nullcline(z: Real) -> Array:
    r"""Both nullclines at $\epsilon = 0$: $f_z = f_T = 2/(1 - \tilde z)$, the two-cycles of the skeleton.

    Args:
        z: rescaled residual, below one.

    Returns:
        Same shape as `z`.
    """
    return jnp.asarray(2 / (1 - z))


_STEP = 0.005  # step of the continuation in z
_JUMP = 0.2  # relative change of the root between continuation points at which the branch counts as lost


def _cubic(z: np.ndarray, eps: float, which: str) -> np.ndarray:
    """Coefficients in T, lowest first, of the two-step change divided by z; finite at z = 0."""
    table = P if which == "residual" else Q
    return np.stack([sum(c(eps) * z ** (power - 1) for power, c in row.items()) + 0 * z for row in table])


@lru_cache(maxsize=64)
def _branch(eps: float, which: str, side: int) -> tuple[np.ndarray, np.ndarray]:
    """The root through (0, 2), continued outwards from z = 0 until it is lost."""
    points, values = [0.0], [2.0]
    for i in range(1, round(2.0 / _STEP)):
        z = side * i * _STEP
        roots = np.roots(_cubic(np.asarray(z), eps, which)[::-1])
        roots = roots.real[np.abs(roots.imag) < 1e-7 * (1 + np.abs(roots))]
        if roots.size == 0:
            break
        nearest = roots[np.argmin(np.abs(roots - values[-1]))]
        if abs(nearest - values[-1]) > _JUMP * abs(values[-1]):
            break
        points.append(z)
        values.append(float(nearest))
    return np.array(points), np.array(values)


def nullcline(z: Real | Sequence[float], eps: float, of: str = "residual") -> np.ndarray:
    r"""Two-step nullcline through $(\tilde z, T) = (0, 2)$, to rounding, by continuation of the root of a
    cubic in $T$.

    Runs on the host in NumPy. It follows the branch outwards from $\tilde z = 0$ and refines it by Newton's
    method at the requested points.

    Args:
        z: rescaled residuals, any shape.
        eps: minus the second eigenvalue.
        of: `"residual"` for $f_z$, `"curvature"` for $f_T$.

    Returns:
        $f(\tilde z)$, shape of `z`, in float64; NaN where the branch leaves the real line or jumps.

    Example:
        ```python
        from secant.theory.edge.nullclines import nullcline

        nullcline([0.05, 0.2, 0.4], eps=0.005)   # 2.1047, 2.4974, 3.3249
        ```
    """
    if of not in ("residual", "curvature"):
        raise ValueError(f"nullcline: `of` is {of!r}. Use 'residual' or 'curvature', the two nullclines.")
    z = np.asarray(z, dtype=np.float64)
    result = np.full(z.shape, np.nan)
    for side in (1, -1):
        here = (z * side > 0) | ((side == 1) & (z == 0))
        if not here.any():
            continue
        points, values = _branch(float(eps), of, side)
        reached = here & (np.abs(z) <= np.abs(points[-1]))
        x = z[reached]
        T = np.interp(np.abs(x), np.abs(points), values)
        c = _cubic(x, float(eps), of)
        for _ in range(8):
            T = T - (c[0] + T * (c[1] + T * (c[2] + T * c[3]))) / (c[1] + T * (2 * c[2] + 3 * T * c[3]))
        result[reached] = T
    return result


def edge_distance(z: Real | Sequence[float], T: Real | Sequence[float], eps: float) -> np.ndarray:
    r"""The coordinate $y = T - f_z(\tilde z)$, meant for every other step; host NumPy.

    Args:
        z: rescaled residuals, any shape.
        T: rescaled curvatures, same shape.
        eps: minus the second eigenvalue.

    Returns:
        $y$, NaN where the nullcline is lost.
    """
    return np.asarray(np.asarray(T, dtype=np.float64) - nullcline(z, eps))
