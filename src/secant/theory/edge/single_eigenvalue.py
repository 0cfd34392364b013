r"""The quartic loss with a single eigenvalue, solved.

With one eigenvalue $\omega$ the invariant fixes the curvature, $\tilde J^2 = \omega(2\tilde z + \tilde E)$,
and gradient flow is a logistic equation.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from secant.core.types import Real


def single_eigenvalue_flow(omega: Real, E: Real) -> Callable[[Array], Array]:
    r"""Gradient flow of the residual, $\dot{\tilde z} = -\omega\,\tilde z\,(2\tilde z + \tilde E)$.

    Args:
        omega: the eigenvalue.
        E: rescaled offset.

    Returns:
        The field `z -> dz/dt`.
    """
    return lambda z: jnp.asarray(-omega * z * (2 * z + E))


def single_eigenvalue_solution(t: Real, z0: Real, omega: Real, E: Real) -> Array:
    r"""The residual at time $t$,

    $$\tilde z(t) = \frac{\tilde E/2}{\left(1 + \frac{\tilde E}{2\tilde z_0}\right)e^{\omega\tilde Et}
      - 1},\qquad
      \tilde z(t) = \frac{\tilde z_0}{1 + 2\omega\tilde z_0t}\ \text{ for } \tilde E = 0 .$$

    Args:
        t: time, in units of the step.
        z0: rescaled residual at the start.
        omega: the eigenvalue.
        E: rescaled offset.

    Returns:
        Broadcast shape.
    """
    rate = omega * jnp.asarray(E)
    # One formula covers both cases: (e^{rt} - 1)/r is continuous at r = 0.
    small = jnp.abs(rate) < 1e-12
    elapsed = jnp.where(small, t, jnp.expm1(rate * t) / jnp.where(small, 1.0, rate))
    return jnp.asarray(z0 / (jnp.exp(rate * t) + 2 * z0 * omega * elapsed))


def single_eigenvalue_curvature(z: Real, omega: Real, E: Real) -> Array:
    r"""The curvature that belongs to a residual, $T(0) = \tilde J^2 = \omega(2\tilde z + \tilde E)$.

    Args:
        z: rescaled residual.
        omega: the eigenvalue.
        E: rescaled offset.

    Returns:
        Broadcast shape.
    """
    return jnp.asarray(omega * (2 * z + E))
