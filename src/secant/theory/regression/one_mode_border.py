r"""The border of divergence of a quadratic model that lives along one direction.

Let a model with one residual $z$ be quadratic in its parameters, with gradient $J$ and second derivative $Q$ at the
start. Along an eigenvector of $Q$ with eigenvalue $\omega_i$ a step of gradient descent on $\frac12z^2$ gives

$$z' = z - \eta z\sum_iJ_i^2 + \tfrac12\eta^2z^2\sum_i\omega_iJ_i^2, \qquad J_i' = (1 - \eta z\,\omega_i)\,J_i,$$

so only the distribution of the squared gradient over the spectrum of $Q$ matters. Two opposite eigenvalues, as behind
the frozen gates of a two-layer network, have the border at $\eta\lambda = 4$ up to the
[correction][secant.theory.catapult.one_sample.max_step] by the target. For other spectra this module finds the border.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Bool, Float

from secant.theory.edge.quartic import Modes, quartic_modes

POINTS = 64
"""Number of step sizes tried at once."""

BLOWN_UP = 1e8
"""A residual has diverged at this many times its first size, or the size where a catapult turns."""


@functools.partial(jax.jit, static_argnames="steps")
def survives(
    lr: Float[Array, " lrs"],
    residual: ArrayLike,
    spectrum: Float[Array, " modes"],
    squares: Float[Array, " modes"],
    steps: int = 1_000,
) -> Bool[Array, " lrs"]:
    r"""Whether gradient descent with each step size is still bounded after `steps` steps.

    Args:
        lr: step sizes.
        residual: $z$ at the start.
        spectrum: $\omega_i$.
        squares: $J_i^2$ at the start, whose sum is the curvature.
        steps: number of steps.
    """
    system, bend = quartic_modes(spectrum), jnp.max(jnp.abs(spectrum))
    turn = jnp.where(bend > 0, 1 / jnp.where(bend > 0, bend, 1.0), 0.0)

    def one(lr: Array) -> Array:
        state = Modes(z=lr * residual, J=jnp.sqrt(lr * squares))
        end = jax.lax.fori_loop(0, steps, lambda _, s: system.step(s), state)
        # Written so that not-a-number counts as diverged.
        bounded = jnp.abs(end.z) < BLOWN_UP * jnp.maximum(jnp.abs(state.z), turn)
        return bounded & (jnp.sum(end.J**2) < BLOWN_UP)

    return jax.vmap(one)(lr)


def largest_step(
    residual: float,
    spectrum: Any,
    squares: Any,
    *,
    upper: float = 16.0,
    rounds: int = 4,
    steps: int = 1_000,
) -> float:
    r"""The smallest step size above two over the curvature at which gradient descent diverges.

    The search refines a grid around its first divergent point. Beyond the border there can be islands of convergence,
    which do not count.

    Args:
        residual: $z$ at the start.
        spectrum: $\omega_i$, `(modes,)`.
        squares: $J_i^2$ at the start, `(modes,)`; their sum is the curvature $\lambda$.
        upper: the largest $\eta\lambda$ to try; the result is infinity if nothing diverges below it.
        rounds: refinements, each by a factor of 64.
        steps: a run that is still bounded after this many steps counts as not divergent.

    Example:
        ```python
        from secant.theory.regression.one_mode_border import largest_step

        largest_step(0.1, [0.1, -0.1], [0.5, 0.5])  # 4: opposite eigenvalues, as in a two-layer ReLU network
        largest_step(0.1, [0.1], [1.0])  # less: one eigenvalue
        ```
    """
    spectrum, squares = np.asarray(spectrum, float), np.asarray(squares, float)
    if spectrum.shape != squares.shape or spectrum.ndim != 1 or not len(spectrum):
        raise ValueError(
            f"largest_step: `spectrum` and `squares` must be lists of equal length, got shapes {spectrum.shape} and "
            f"{squares.shape}."
        )
    if squares.min() < 0 or not squares.sum() > 0:
        raise ValueError("largest_step: `squares` must be at least 0, with at least one above 0.")
    low, high = 2.0, upper
    for _ in range(rounds):
        grid = np.linspace(low, high, POINTS + 1)[1:]
        lost = ~np.asarray(survives(jnp.asarray(grid / squares.sum()), residual, spectrum, squares, steps))
        if not lost.any():
            return float("inf")
        first = int(np.argmax(lost))
        low, high = (grid[first - 1] if first else low), grid[first]
    return float(high / squares.sum())
