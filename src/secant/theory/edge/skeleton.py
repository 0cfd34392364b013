r"""The skeleton of the edge of stability: the two-eigenvalue model as its second eigenvalue goes to zero.

At $\epsilon = 0$ every step changes the curvature by twice the change of the residual, so $C = T - 2\tilde z$ is
conserved and one number is left. The simplest choice is the Jacobian of the surviving mode, $T = \tilde J^2$. Gradient
descent is then an odd cubic map of the line,
$$\tilde J' = \tilde J\left(1 + \tfrac C2 - \tfrac12\tilde J^2\right).$$
It converges for $C < 2$. Up to $C = 4$ it oscillates with period two, then four, ..., then chaotically, and beyond it
escapes. For a small second eigenvalue $-\epsilon$ the orbit follows this skeleton while $C$ drifts slowly down to the
edge, $2 - \epsilon/2$. This determines the step sizes that reach the edge of stability.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import scipy  # its parts are loaded when they are used, so a process that needs none of them loads none
from jax import Array

from secant.core.types import Real
from secant.dynamics import Map

CYCLE_FLIP = 2 * math.sqrt(5) - 2
r"""Value of $C$ at which the two-cycle loses stability to a period of four, $2\sqrt5 - 2 = 2.472$."""

SIGN_CRISIS = 3 * math.sqrt(3) - 2
r"""Value of $C$ above which orbits reach $\tilde J = 0$ and the parameter of the first mode changes sign,
$3\sqrt3 - 2 = 3.196$."""

ESCAPE = 4.0
r"""Value of $C$ above which almost every orbit diverges; at $C = 4$ the map is the Chebyshev polynomial
$\tilde z^3 - 3\tilde z$."""


def conserved(z: Real, T: Real) -> Array:
    r"""The conserved quantity $C = T - 2\tilde z$ of the skeleton.

    Args:
        z: rescaled residual.
        T: rescaled curvature.

    Returns:
        Broadcast shape.
    """
    return jnp.asarray(T - 2 * z)


def skeleton(C: Real) -> Map:
    r"""Gradient descent at $\epsilon = 0$ on the line of constant $C$, in the residual:
    $\tilde z' = g_C(\tilde z) = \tilde z^3 + (\tfrac C2 - 2)\tilde z^2 + (1 - C)\tilde z$.

    Args:
        C: the conserved quantity.

    Returns:
        A Map on the residual $\tilde z$; the curvature is $T = C + 2\tilde z$.
    """
    return Map(init=jnp.asarray, step=lambda z: z**3 + (C / 2 - 2) * z**2 + (1 - C) * z)


def jacobian_skeleton(C: Real) -> Map:
    r"""The skeleton in the Jacobian of its one mode, an odd cubic map:
    $\tilde J' = \tilde J(1 + C/2 - \tilde J^2/2)$.

    Args:
        C: the conserved quantity.

    Returns:
        A Map on $\tilde J$; the curvature is $\tilde J^2$, the residual $(\tilde J^2 - C)/2$.
    """
    return Map(init=jnp.asarray, step=lambda J: J * (1 + C / 2 - J**2 / 2))


def cycle(C: Real) -> tuple[Array, Array]:
    r"""Residuals of the two-cycle, $\tilde z_\pm = \tfrac14\bigl[-(C-2) \pm \sqrt{(C-2)^2 + 8(C-2)}\bigr]$
    for $C > 2$.

    They solve $(C + 2\tilde z)(1 - \tilde z) = 2$.

    Args:
        C: the conserved quantity, above two.

    Returns:
        The lower and the upper residual; NaN for $C < 2$.
    """
    h = jnp.asarray(C) - 2
    root = jnp.sqrt(h**2 + 8 * h)
    return (-h - root) / 4, (-h + root) / 4


def cycle_multiplier(C: Real) -> Array:
    r"""Multiplier of the two-cycle over its two steps, $1 - 8h - 2h^2$ with $h = (C-2)/2$.

    It is stable for $2 < C < 2\sqrt5 - 2$.

    Args:
        C: the conserved quantity.

    Returns:
        Broadcast shape.
    """
    h = (jnp.asarray(C) - 2) / 2
    return 1 - 8 * h - 2 * h**2


def step_window(curvature: Real, residual: Real) -> tuple[Array, Array]:
    r"""The step sizes that bring a start to the edge of stability, for a small second eigenvalue.

    Both ends of $2 < C < 4$ scale with the step, $C = \eta(\lambda_0 - 2z_0)$, so
    $$\frac{2}{\lambda_0 - 2z_0} < \eta < \frac{4}{\lambda_0 - 2z_0} .$$
    Below the window the curvature ends at $\eta\lambda_\infty = C + O(\epsilon)$; above it almost every run
    diverges. Just above the lower end the orbit has too little residual left ($\tilde z^2 \lesssim \epsilon$)
    to forget its start.

    Args:
        curvature: $\lambda_0 = JJ^\top$ at the start, not rescaled.
        residual: $z_0$ at the start, not rescaled.

    Returns:
        The lower and the upper end.
    """
    scale = jnp.asarray(curvature - 2 * residual)
    return 2 / scale, ESCAPE / scale


def image_of_the_top(C: float) -> float:
    r"""The Jacobian one step after the largest Jacobian that an orbit reaches from inside, the top of the cubic.

    Below [`SIGN_CRISIS`][secant.theory.edge.skeleton.SIGN_CRISIS] it is above zero. The top is found numerically.

    Args:
        C: the conserved quantity.
    """
    step = jacobian_skeleton(C).step
    top = scipy.optimize.minimize_scalar(
        lambda J: -float(step(J)), bounds=(0, 3), method="bounded", options={"xatol": 1e-10}
    )
    return float(step(-top.fun))


def level_step(C: Real, z: Real, eps: Real) -> Array:
    r"""One step of the level for eigenvalues $\{1, -\epsilon\}$, exactly: $C_{t+1} = C_t\,(1 + \epsilon\tilde z_t)^2$.

    Without offset $C = T - 2\tilde z$ is the squared Jacobian of the second mode, times $(1+\epsilon)/\epsilon$.

    Args:
        C: the level $T - 2\tilde z$.
        z: rescaled residual.
        eps: minus the second eigenvalue.

    Returns:
        The level after the step, broadcast shape.
    """
    return jnp.asarray(C * (1 + eps * z) ** 2)


def level_drift(t: Real, C: Real, eps: Real) -> Array:
    r"""The level after $t$ steps, averaged over the two-cycle that the orbit follows.

    The cycle's mean residual is $-(C-2)/4$, so $\dot C = 2\epsilon C\langle\tilde z\rangle = -\tfrac12\epsilon C(C-2)$,
    $$\frac{C_t - 2}{C_t} = \frac{C_0 - 2}{C_0}\,e^{-\epsilon t} :$$
    the approach to the edge takes a few $1/\epsilon$ steps. The formula has leading order in $\epsilon$, and holds for
    $2 < C_0 < 2\sqrt5 - 2$.

    Args:
        t: number of steps.
        C: level at the start.
        eps: minus the second eigenvalue.

    Returns:
        The level at $t$, broadcast shape.
    """
    share = (1 - 2 / jnp.asarray(C)) * jnp.exp(-eps * t)
    return 2 / (1 - share)


def level_below(C: Real, z: Real, eps: Real, steps: int = 2_000) -> Array:
    r"""The level at which a run from below the window ends, to first order in $\epsilon$.

    Each step multiplies the level by $(1 + \epsilon\tilde z)^2$, and to this order the residuals are the skeleton's:
    $$C_\infty = C\Bigl(1 + 2\epsilon\sum_t\tilde z_t\Bigr) + O(\epsilon^2),\qquad \tilde z_{t+1} = g_C(\tilde z_t) .$$
    The residual goes to zero, so this is the final curvature too.

    Args:
        C: level at the start, below two.
        z: rescaled residual at the start.
        eps: minus the second eigenvalue.
        steps: terms of the sum, which converges as $|1 - C|^t$.

    Returns:
        $C_\infty$, broadcast shape.
    """
    step = skeleton(C).step
    start = jnp.broadcast_arrays(jnp.asarray(z, dtype=jnp.result_type(float)), jnp.asarray(C))[0]
    _, total = jax.lax.fori_loop(0, steps, lambda _, s: (step(s[0]), s[1] + s[0]), (start, 0 * start))
    return C * (1 + 2 * eps * total)
