r"""The quartic loss with two eigenvalues, exactly, in two numbers.

For eigenvalues $\{1, \lambda\}$, $\lambda \ne 0$, $-1 \le \lambda < 1$, the invariant
$T(-1) = W = 2\tilde z + \tilde E$ leaves two free variables: the rescaled residual $\tilde z$ and the rescaled
curvature $T = T(0)$. The second eigenvalue decides the behaviour: $\lambda = -1$ is the catapult, a small
$\lambda = -\epsilon$ sharpens to the edge of stability, and $\lambda > 0$ has nowhere to converge to. All quantities
here are in units of the step size.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float

from secant.core.types import Real
from secant.dynamics import Map


class Point(NamedTuple):
    r"""A point of the phase plane.

    Attributes:
        z: rescaled residual $\tilde z = \eta z$.
        T: rescaled curvature $T(0) = \eta JJ^\top$.
    """

    z: Real
    T: Real


def higher_moments(z: Real, T: Real, second: Real, E: Real = 0.0) -> tuple[Array, Array]:
    r"""$T(1)$ and $T(2)$ from the phase-plane coordinates.

    $T(1) = (1+\lambda)T - \lambda W$ and $T(2) = T + \lambda(1+\lambda)(T - W)$, $W = 2\tilde z + \tilde E$;
    with $a = -1/\lambda$ these are $T(1) = (W + (a-1)T)/a$ and $T(2) = T + \frac{1-a}{a^2}(T - W)$.

    Args:
        z: rescaled residual.
        T: rescaled curvature.
        second: second eigenvalue $\lambda$ (the first is one).
        E: rescaled offset.

    Returns:
        $T(1)$ and $T(2)$, broadcast shapes.
    """
    W = 2 * z + E
    return jnp.asarray((1 + second) * T - second * W), jnp.asarray(T + second * (1 + second) * (T - W))


def two_eigenvalue(second: Real, E: Real = 0.0) -> Map:
    r"""Gradient descent on the quartic loss with eigenvalues $\{1, \lambda\}$, exactly, in two numbers.

    $$\tilde z' = \tilde z - \tilde z T + \tfrac12\tilde z^2\bigl[(1+\lambda)T - \lambda W\bigr],$$
    $$T' = T - 2\tilde z\bigl[(1+\lambda)T - \lambda W\bigr] + \tilde z^2\bigl[T + \lambda(1+\lambda)(T
      - W)\bigr],
      \qquad W = 2\tilde z + \tilde E .$$

    Args:
        second: second eigenvalue $\lambda$ (the first is one); $-\epsilon$ for the edge of stability, $-1$
            for the catapult.
        E: rescaled offset $\tilde E = \eta E$.

    Returns:
        A Map on [`Point`][secant.theory.edge.two_eigenvalue.Point].

    Example:
        ```python
        import secant as sc
        from secant.theory.edge.two_eigenvalue import Point, two_eigenvalue

        run = sc.simulate(two_eigenvalue(second=-0.01), Point(z=0.3, T=2.9), steps=20_000, probes={"T": lambda p: p.T})
        run["T"][-1]   # 1.9949...: just below the edge of stability
        ```
    """

    def step(point: Point) -> Point:
        z, T = point
        T1, T2 = higher_moments(z, T, second, E)
        return Point(z=z - z * T + z**2 * T1 / 2, T=T - 2 * z * T1 + z**2 * T2)

    return Map(init=lambda point: Point(*point), step=step)


def symmetric(E: Real = 0.0) -> Map:
    r"""The catapult: eigenvalues $\{1, -1\}$.

    $\tilde z' = \tilde z - \tilde zT + \tfrac12\tilde z^2 W$ and $T' = T - 2\tilde zW + \tilde z^2 T$.
    Without offset $T' - T = \tilde z^2 (T - 4)$: every convergent run loses curvature, and $T > 4$ diverges.

    Args:
        E: rescaled offset.

    Returns:
        A Map on [`Point`][secant.theory.edge.two_eigenvalue.Point].
    """
    return two_eigenvalue(-1.0, E)


def weights(z: Real, T: Real, second: Real, E: Real = 0.0) -> tuple[Array, Array]:
    r"""Squared Jacobian components of the two modes, the inverse of
    $(\tilde J_1^2, \tilde J_\lambda^2) \mapsto (\tilde z, T)$.

    $$\tilde J_1^2 = \frac{T - \lambda W}{1 - \lambda},\qquad \tilde J_\lambda^2 = -\frac{\lambda\,(T
      - W)}{1-\lambda} .$$

    Args:
        z: rescaled residual.
        T: rescaled curvature.
        second: second eigenvalue $\lambda$.
        E: rescaled offset.

    Returns:
        $\tilde J_1^2$ and $\tilde J_\lambda^2$; negative outside the admissible region.
    """
    W = 2 * z + E
    return jnp.asarray((T - second * W) / (1 - second)), jnp.asarray(-second * (T - W) / (1 - second))


def parameters(z: Real, T: Real, second: Real, E: Real = 0.0, lr: Real = 1.0) -> Float[Array, "*batch 2"]:
    r"""The parameters with two positive coordinates at a point of the phase plane.

    They are $\theta_1 = \tilde J_1/\sqrt\eta$ and $\theta_2 = |\tilde J_\lambda/\lambda|/\sqrt\eta$.

    Args:
        z: rescaled residual.
        T: rescaled curvature.
        second: second eigenvalue $\lambda$.
        E: rescaled offset $\eta E$.
        lr: step size $\eta$.

    Returns:
        Shape `(..., 2)`; NaN where the point is not admissible.
    """
    first, other = weights(z, T, second, E)
    theta = jnp.stack(jnp.broadcast_arrays(jnp.sqrt(first), jnp.sqrt(other) / jnp.abs(second)), axis=-1)
    return theta / jnp.sqrt(jnp.asarray(lr))[..., None]


def phase_point(theta: Float[Array, "*batch 2"], second: Real, E: Real = 0.0, lr: Real = 1.0) -> Point:
    r"""The point of the phase plane of a parameter vector, $(\eta z, \eta JJ^\top)$.

    Args:
        theta: parameters in the eigenbasis, shape `(..., 2)`.
        second: second eigenvalue $\lambda$.
        E: offset in the units of the parameters, $E = \tilde E/\eta$.
        lr: step size $\eta$.

    Returns:
        The rescaled residual and curvature, shape `(...)`.
    """
    first, other = theta[..., 0] ** 2, theta[..., 1] ** 2
    return Point(z=lr * (first + second * other - E) / 2, T=lr * (first + second**2 * other))


def admissible(z: Real, T: Real, second: Real, E: Real = 0.0) -> Bool[Array, "*batch"]:
    r"""Whether some parameters belong to a point of the phase plane: both squared Jacobian components are
    nonnegative.

    For $\lambda < 0$ the admissible region is an upward cone, $T \ge W$ and $T \ge \lambda W$, with its vertex at
    $\tilde z = -\tilde E/2$. For $0 < \lambda < 1$ it is a sideways cone, $\lambda W \le T \le W$, which without offset
    meets $\tilde z = 0$ at $T = 0$ only.

    Args:
        z: rescaled residual.
        T: rescaled curvature.
        second: second eigenvalue $\lambda$.
        E: rescaled offset.

    Returns:
        Boolean array, broadcast shape.
    """
    first, other = weights(z, T, second, E)
    return (first >= 0) & (other >= 0)


def one_step_nullclines(z: Real, second: Real, E: Real = 0.0) -> tuple[Array, Array]:
    r"""Curvatures at which one step leaves the residual, or the curvature, unchanged.

    With $a = -1/\lambda$,
    $$f_z = \frac{\tilde zW}{2a - (a-1)\tilde z},\qquad
      f_T = -\frac{(a-1)\tilde z - 2a}{(a^2-a+1)\tilde z - 2a(a-1)}\,W ;$$
    the line $\tilde z = 0$ is a nullcline of both.

    Args:
        z: rescaled residual.
        second: second eigenvalue $\lambda \ne 0$.
        E: rescaled offset.

    Returns:
        $f_z$ and $f_T$, broadcast shapes.
    """
    a = -1 / jnp.asarray(second)
    W = 2 * z + E
    f_z = z * W / (2 * a - (a - 1) * z)
    f_T = -((a - 1) * z - 2 * a) / ((a**2 - a + 1) * z - 2 * a * (a - 1)) * W
    return jnp.asarray(f_z), jnp.asarray(f_T)
