r"""Two ways to let the tangent kernel move at third order: constant $Q$, or constant $K_3$.

For residuals $z_\alpha$ with Jacobian $J_{\alpha i}$ and second derivative $Q_{\alpha ij}$ gradient flow
moves the tangent kernel $K = JJ^\top$ by the third kernel of the hierarchy,
$$\dot K_{\alpha\beta} = -\eta\,(K_3)_{\alpha\beta\gamma}z_\gamma,\qquad
  (K_3)_{\alpha\beta\gamma} = Q_{\alpha ij}J_{\gamma i}J_{\beta j} + Q_{\beta ij}J_{\gamma i}J_{\alpha j} .$$
Quadratic regression keeps $Q$ constant and lets $K_3$ move; the truncated hierarchy keeps $K_3$ constant.
Both agree to first order in time and differ after that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from secant.dynamics import Map


class Hierarchy(NamedTuple):
    """Residuals and tangent kernel of the truncated hierarchy.

    Attributes:
        z: residuals, shape `(d,)`.
        K: tangent kernel, shape `(d, d)`.
    """

    z: Float[Array, " d"]
    K: Float[Array, "d d"]


def third_kernel(Q: Float[Array, "d p p"], J: Float[Array, "d p"]) -> Float[Array, "d d d"]:
    r"""The third kernel
    $(K_3)_{\alpha\beta\gamma} = Q_{\alpha ij}J_{\gamma i}J_{\beta j} + Q_{\beta ij}J_{\gamma i}J_{\alpha j}$,
    symmetric in $\alpha\beta$.

    Args:
        Q: second derivatives, shape `(d, p, p)`.
        J: Jacobian, shape `(d, p)`.

    Returns:
        Shape `(d, d, d)`.
    """
    half = jnp.einsum("aij,ci,bj->abc", Q, J, J, optimize=True)
    return half + jnp.swapaxes(half, 0, 1)


def hierarchy_flow(K3: Float[Array, "d d d"], lr: Array | float = 1.0) -> Callable[[Hierarchy], Hierarchy]:
    r"""Gradient flow of the hierarchy truncated at constant $K_3$: $\dot z = -\eta Kz$,
    $\dot K_{\alpha\beta} = -\eta(K_3)_{\alpha\beta\gamma}z_\gamma$.

    Args:
        K3: third kernel, shape `(d, d, d)`.
        lr: the factor $\eta$ of time.

    Returns:
        The field on [`Hierarchy`][secant.theory.regression.tangent_hierarchy.Hierarchy].
    """
    return lambda state: Hierarchy(z=-lr * state.K @ state.z, K=-lr * K3 @ state.z)


def hierarchy_descent(K3: Float[Array, "d d d"], lr: Array | float) -> Map:
    r"""The truncated hierarchy in steps of $\eta$: $z' = z - \eta Kz$, $K' = K - \eta K_3z$.

    Args:
        K3: third kernel, shape `(d, d, d)`.
        lr: step size.

    Returns:
        A Map on [`Hierarchy`][secant.theory.regression.tangent_hierarchy.Hierarchy].
    """
    field = hierarchy_flow(K3, lr)

    def step(state: Hierarchy) -> Hierarchy:
        change = field(state)
        return Hierarchy(z=state.z + change.z, K=state.K + change.K)

    return Map(init=lambda state: Hierarchy(*state), step=step)
