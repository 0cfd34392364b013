r"""The quadratic regression model: residuals that are quadratic in the parameters.

$$z(\theta) = y + G\theta + \tfrac12 Q(\theta, \theta), \qquad J(\theta) = G + Q(\theta, \cdot),$$

with $D$ residuals, $P$ parameters, and $Q_\alpha$ symmetric for every residual $\alpha$. Gradient descent on
$\frac12|z|^2$ is a closed recursion of $(z, J)$, because the second derivative is constant: with $w = J^\top z$

$$z' = z - \eta Jw + \tfrac12\eta^2 Q(w, w), \qquad J' = J - \eta Q(w, \cdot).$$

In the rescaled variables $\eta z$ and $\sqrt\eta J$ the step size drops out. Gradient flow also allows time to be
rescaled: $(z, J, t) \mapsto (sz, \sqrt s J, t/s)$ maps solutions to solutions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, PRNGKeyArray

from secant.dynamics import Map

Convention = Literal["averaged", "goe", "independent"]
"""How a random $Q_\\alpha$ is made of a matrix $A$ of independent standard normal entries."""


class Model(NamedTuple):
    """A quadratic regression model in its parameters.

    Attributes:
        offset: residuals at the origin, shape `(d,)`.
        G: Jacobian at the origin, shape `(d, p)`.
        Q: second derivatives, shape `(d, p, p)`, symmetric in the last two.
    """

    offset: Float[Array, " d"]
    G: Float[Array, "d p"]
    Q: Float[Array, "d p p"]

    def jacobian(self, theta: Float[Array, " p"]) -> Float[Array, "d p"]:
        r"""The Jacobian $J(\theta) = G + Q(\theta, \cdot)$."""
        return self.G + self.Q @ theta

    def residuals(self, theta: Float[Array, " p"]) -> Float[Array, " d"]:
        r"""The residuals $z(\theta) = y + \frac12(G + J(\theta))\theta$, with one contraction of $Q$."""
        return self.offset + (self.G + self.jacobian(theta)) @ theta / 2


class Regression(NamedTuple):
    """Residuals and Jacobian of a quadratic regression model.

    Attributes:
        z: residuals, shape `(d,)`.
        J: Jacobian, shape `(d, p)`.
    """

    z: Float[Array, " d"]
    J: Float[Array, "d p"]


def symmetric(Q: Float[Array, "d p p"], otherwise: Literal["refuse", "symmetrize"] = "refuse") -> Float[Array, "d p p"]:
    r"""The tensor `Q`, checked: not empty, finite, and every $Q_\alpha$ symmetric.

    If $Q$ is not symmetric, the update of $(z, J)$ is not gradient descent on any model, because the loss depends only
    on the symmetric part.

    Args:
        Q: second derivatives.
        otherwise: what to do with a $Q$ that is not symmetric: `refuse` raises, `symmetrize` warns and takes
            $\frac12(Q_\alpha + Q_\alpha^\top)$.
    """
    Q = jnp.asarray(Q)
    if Q.ndim != 3 or Q.shape[1] != Q.shape[2]:
        raise ValueError(f"Q: must have shape (d, p, p), got {Q.shape}.")
    if 0 in Q.shape:
        raise ValueError(f"Q: needs at least one residual and one parameter, got shape {Q.shape}.")
    if not bool(jnp.all(jnp.isfinite(Q))):
        raise ValueError("Q: has entries that are not finite.")
    transposed = jnp.swapaxes(Q, 1, 2)
    gap = float(jnp.max(jnp.abs(Q - transposed)) / jnp.maximum(jnp.max(jnp.abs(Q)), jnp.finfo(Q.dtype).tiny))
    if gap <= 4 * float(jnp.finfo(Q.dtype).eps):
        return Q
    what = f"Q: is not symmetric in its last two axes (by {gap:.1e} of its largest entry)"
    if otherwise == "refuse":
        raise ValueError(f"{what}. Pass the symmetric part, or `otherwise='symmetrize'`.")
    if otherwise != "symmetrize":
        raise ValueError(f"otherwise: must be 'refuse' or 'symmetrize', got {otherwise!r}.")
    warnings.warn(f"{what}; its symmetric part is used.", RuntimeWarning, stacklevel=2)
    return (Q + transposed) / 2


def descent(Q: Float[Array, "d p p"], lr: Array | float = 1.0, *, second_order: bool = True) -> Map:
    r"""Gradient descent on $\frac12|z|^2$ as a Map of $(z, J)$, with one contraction of $Q$ per step.

    Args:
        Q: second derivatives, symmetric.
        lr: $\eta$.
        second_order: keep $\frac12\eta^2Q(w, w)$. Without this term the residuals move as if the model were linear over
            a step, and nothing stops the curvature at $2/\eta$.
    """

    def step(state: Regression) -> Regression:
        w = state.J.T @ state.z
        bend = Q @ w
        z = state.z - lr * state.J @ w
        return Regression(z + lr**2 / 2 * bend @ w if second_order else z, state.J - lr * bend)

    return Map(init=lambda start: Regression(*map(jnp.asarray, start)), step=step)


def parameter_descent(model: Model, lr: Array | float = 1.0) -> Map:
    r"""Gradient descent as a Map of the parameters, $\theta' = \theta - \eta J(\theta)^\top z(\theta)$."""

    def step(theta: Float[Array, " p"]) -> Float[Array, " p"]:
        J = model.jacobian(theta)
        z = model.offset + (model.G + J) @ theta / 2
        return theta - lr * J.T @ z

    return Map(init=jnp.asarray, step=step)


def flow_field(Q: Float[Array, "d p p"], lr: Array | float = 1.0) -> Callable[[Regression], Regression]:
    r"""Gradient flow: $\dot z = -\eta JJ^\top z$, $\dot J_\alpha = -\eta\,Q_\alpha J^\top z$.

    Args:
        Q: second derivatives, symmetric.
        lr: the factor $\eta$ of time.
    """

    def field(state: Regression) -> Regression:
        w = state.J.T @ state.z
        return Regression(z=-lr * state.J @ w, J=-lr * Q @ w)

    return field


def rescaled(state: Regression, lr: Array | float) -> Regression:
    r"""The state $(\eta z, \sqrt\eta J)$, which moves with step size one as $(z, J)$ does with step size $\eta$."""
    return Regression(lr * state.z, jnp.sqrt(lr) * state.J)


def top_pair(J: Float[Array, "d p"]) -> tuple[Float[Array, ""], Float[Array, " d"]]:
    r"""Largest eigenvalue of the tangent kernel $JJ^\top$ and its eigenvector."""
    values, vectors = jnp.linalg.eigh(J @ J.T)
    return values[-1], vectors[:, -1]


def self_interaction(state: Regression, Q: Float[Array, "d p p"]) -> tuple[Array, Array, Array]:
    r"""The numbers by which the top mode acts on itself: $\lambda_1$, $z_1 = v_1\cdot z$ and $Q_1(w_1, w_1)$.

    Here $Q_1 = v_1\cdot Q$, and $w_1 = J^\top v_1z_1$ is the top mode's part of the gradient."""
    value, vector = top_pair(state.J)
    z1 = vector @ state.z
    w1 = state.J.T @ vector * z1
    return value, z1, w1 @ jnp.tensordot(vector, Q, 1) @ w1


def lazy_change(Q: Float[np.ndarray, "*n d p p"], state: Regression, time: float) -> Float[np.ndarray, "*n"]:
    r"""Relative change of the largest eigenvalue under gradient flow, to first order in the residuals.

    To this order residuals fall as in linear regression. With $K = JJ^\top$ the parameters move by
    $\theta = -J^\top K^{-1}(1 - e^{-Kt})z$, and the eigenvalue by $2v_1^\top Q(\theta, \cdot)J^\top v_1$.

    Args:
        Q: second derivatives, symmetric, for one model or for many.
        state: residuals and Jacobian at the start.
        time: $t$.
    """
    z, J = np.asarray(state.z), np.asarray(state.J)
    values, vectors = np.linalg.eigh(J @ J.swapaxes(-1, -2))
    shrunk = -np.expm1(-values * time) / np.where(values > 0, values, 1.0)
    moved = np.einsum("...ak,...k,...bk,...b->...a", vectors, shrunk, vectors, z)
    theta, first = -np.einsum("...ap,...a->...p", J, moved), vectors[..., -1]
    along = np.einsum("...ap,...a->...p", J, first)
    bend = np.einsum("...a,...apq,...p,...q->...", first, Q, theta, along, optimize=True)
    return np.asarray(2 * bend / values[..., -1])


class Scales(NamedTuple):
    r"""Standard deviations of a random start, $\sigma_z$ of the residuals and $\sigma_J$ of the Jacobian."""

    z: Array
    J: Array


def scales(residual: Array | float, jacobian: Array | float, D: int, P: int) -> Scales:
    r"""The scales $\sigma_z = \tilde\sigma_z/D$ and $\sigma_J = \tilde\sigma_J/(DP)^{1/4}$, where large models agree.

    Args:
        residual: $\tilde\sigma_z$.
        jacobian: $\tilde\sigma_J$.
        D: residuals.
        P: parameters.
    """
    _positive("D", D)
    _positive("P", P)
    return Scales(jnp.asarray(residual) / D, jnp.asarray(jacobian) / (D * P) ** 0.25)


def random_tensor(
    key: PRNGKeyArray, D: int, P: int, convention: Convention = "averaged", dtype: jnp.dtype | type | None = None
) -> Float[Array, "d p p"]:
    r"""A random $Q$ from matrices $A_\alpha$ of independent standard normal entries.

    - `averaged`: $\frac12(A + A^\top)$; entries off the diagonal have variance 1/2. With this convention the mean
      acceleration of the top eigenvalue is $DP\sigma_z^2$ times the eigenvalue.
    - `goe`: $\frac{1}{\sqrt2}(A + A^\top)$; entries off the diagonal have variance 1.
    - `independent`: $A$ itself, which is not symmetric and so not the second derivative of anything.
    """
    _positive("D", D)
    _positive("P", P)
    A = jax.random.normal(key, (D, P, P), dtype)
    if convention == "independent":
        return A
    if convention not in ("averaged", "goe"):
        raise ValueError(f"convention: must be 'averaged', 'goe' or 'independent', got {convention!r}.")
    return (A + jnp.swapaxes(A, 1, 2)) / (2.0 if convention == "averaged" else float(np.sqrt(2.0)))


def random_start(key: PRNGKeyArray, D: int, P: int, dtype: jnp.dtype | type | None = None) -> Regression:
    """Residuals and Jacobian with standard normal entries, to be multiplied by their scales."""
    _positive("D", D)
    _positive("P", P)
    one, two = jax.random.split(key)
    return Regression(jax.random.normal(one, (D,), dtype), jax.random.normal(two, (D, P), dtype))


def _positive(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name}: must be a whole number of at least 1, got {value!r}.")
