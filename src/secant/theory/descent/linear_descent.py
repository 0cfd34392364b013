r"""Gradient descent on a model that is linear in its parameters: residuals and weights after any number of steps.

The tangent kernel $K$ never moves, and on $\frac12\|r\|^2$ the residual $r = f - y$ obeys $r' = (I - \eta K)\, r$.
A step multiplies the part along an eigenvector of $K$ by $1 - \eta\lambda_i$, so the loss falls for every start if and
only if $\eta < 2/\lambda_{\max}$. A linear model cannot converge at or above the critical step size.

For the weights of $f = Xw$, with the singular values $\sigma_i$ and vectors $u_i$, $v_i$ of $X$, this means

$$w_t = w_0 + \sum_i\frac{1 - (1 - \eta\sigma_i^2)^t}{\sigma_i}\,v_i\,u_i\cdot(y - Xw_0),$$

so the weights leave their start only along the rows of $X$. They end in $w_0 + X^\dagger(y - Xw_0)$, the solution
nearest to the start.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from secant.core.types import Real


def residual_after(
    residual: Float[Array, " n"], kernel: Float[Array, "n n"], lr: Real, steps: Real
) -> Float[Array, "... n"]:
    r"""The residual after some steps, $r_t = (I - \eta K)^t\, r_0$.

    Args:
        residual: $r_0$.
        kernel: $K$, symmetric.
        lr: $\eta$ for the loss $\frac12\|r\|^2$; broadcasts with `steps`.
        steps: $t$, whole numbers.
    """
    values, vectors = jnp.linalg.eigh(kernel)
    lr, steps = jnp.asarray(lr)[..., None], jnp.asarray(steps)[..., None]
    # The sign is taken apart, so that only powers of positive numbers are needed.
    factor = 1 - lr * values
    sign = jnp.where((factor < 0) & (steps % 2 == 1), -1.0, 1.0)
    return (sign * jnp.abs(factor) ** steps * (vectors.T @ residual)) @ vectors.T


def critical_step(kernel: Float[Array, "n n"]) -> Float[Array, ""]:
    r"""The largest step size at which no direction grows, $2/\lambda_{\max}(K)$, for the loss $\frac12\|r\|^2$."""
    return 2 / jnp.linalg.eigvalsh(kernel)[-1]


def loss_growth(kernel: Float[Array, "n n"], lr: Real) -> Float[Array, "..."]:
    r"""The factor of the loss in one step, after many steps, $\max_i (1 - \eta\lambda_i)^2$."""
    values = jnp.linalg.eigvalsh(kernel)
    return jnp.max((1 - jnp.asarray(lr)[..., None] * values) ** 2, axis=-1)


def weights_after(
    X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], lr: Real, steps: Any, start: Any = None
) -> Float[np.ndarray, "... d"]:
    r"""The weights of a linear model after some steps on $\frac12|Xw - y|^2$, without running the steps.

    Args:
        X: inputs, one row per sample, of any rank.
        y: targets.
        lr: $\eta$, one number.
        steps: $t$, one or several whole numbers; `inf` for the limit, which exists for $\eta < 2/\sigma_1^2$.
        start: $w_0$; by default 0.

    Example:
        ```python
        import numpy as np
        from secant.theory.descent.linear_descent import weights_after

        X, y = np.array([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), np.array([2.0, 3.0])
        print(weights_after(X, y, 0.1, [0, 1, np.inf], start=np.array([0.0, 0.0, 5.0])))
        ```
        ```text
        [[0.  0.  5. ]
         [0.4 0.3 5. ]
         [1.  3.  5. ]]
        ```
    """
    X, y = np.asarray(X, float), np.asarray(y, float)
    start = np.zeros(X.shape[1]) if start is None else np.asarray(start, float)
    u, sigma, v = np.linalg.svd(X, full_matrices=False)
    sigma, u, v = (part[..., sigma > _negligible(X, sigma)] for part in (sigma, u, v.T))
    return start + (_gain(float(lr), sigma, steps) / sigma * (u.T @ (y - X @ start))) @ v.T


def predictions_after(
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    new: Float[np.ndarray, "m d"],
    lr: Real,
    steps: Any,
    start: Any = None,
) -> Float[np.ndarray, "... m"]:
    """The predictions of a linear model for other inputs after some steps; for the inputs themselves, its fit.

    Args:
        X: inputs, one row per sample.
        y: targets.
        new: other inputs.
        lr: as in `weights_after`.
        steps: as in `weights_after`.
        start: as in `weights_after`.
    """
    return weights_after(X, y, lr, steps, start) @ np.asarray(new, float).T


def _negligible(X: np.ndarray, sigma: np.ndarray) -> float:
    """The size up to which a singular value is zero, up to rounding."""
    return float(max(X.shape) * np.finfo(float).eps * sigma.max(initial=0.0))


def _gain(lr: float, sigma: np.ndarray, steps: Any) -> np.ndarray:
    r"""The learned share $1 - (1 - \eta\sigma^2)^t$, to full precision also for small $\eta\sigma^2$."""
    rate, t = lr * sigma**2, np.asarray(steps, float)[..., None]
    whole = np.where(np.isinf(t), 0.0, t)
    small, end = rate < 0.5, np.where(np.abs(1 - rate) < 1, 1.0, np.nan)
    slow = -np.expm1(whole * np.log1p(-np.where(small, rate, 0.0)))
    return np.where(np.isinf(t), end, np.where(small, slow, 1 - (1 - rate) ** whole))
