r"""Linear stability of optimisers that remember one step.

On a parabola $L = \frac12\lambda x^2$ the gradient is $\lambda x$. Gradient descent, momentum of either kind, and Adam
and RMSprop at a fixed preconditioner then all obey a linear recursion of two terms,

$$x_{t+1} = (p_1 - \lambda q_1)\,x_t + (p_2 - \lambda q_2)\,x_{t-1} .$$

The solutions are powers $\mu^t$ of the two roots of
$\chi(\mu) = \mu^2 - (p_1 - \lambda q_1)\mu - (p_2 - \lambda q_2)$, the eigenvalues of the companion matrix. The
recursion converges from every start exactly if both roots lie inside the unit circle. A pair of roots can leave the
circle in only three ways, and each is a linear inequality in the curvature (Jury's conditions):

$$\chi(-1) = 1 + p_1 - p_2 - \lambda(q_1 - q_2) > 0, \qquad
\chi(1) = 1 - p_1 - p_2 + \lambda(q_1 + q_2) > 0, \qquad
1 - \mu_1\mu_2 = 1 + p_2 - \lambda q_2 > 0 .$$

For every optimiser here the first condition fails first: at the largest stable curvature a root is $-1$, and the
iterate flips its sign at each step, as in gradient descent at $2/\eta$.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float


class Interval(NamedTuple):
    r"""The curvatures at which a rule is stable, $\text{low} < \lambda < \text{high}$; empty where low exceeds high."""

    low: float
    high: float


class LinearRule(NamedTuple):
    r"""An optimiser on a parabola, $x_{t+1} = (p_1 - \lambda q_1)x_t + (p_2 - \lambda q_2)x_{t-1}$.

    Attributes:
        position: $(p_1, p_2)$, the weights of the last two positions.
        gradient: $(q_1, q_2)$, the weights of the last two gradients.

    Example:
        ```python
        from secant.theory.edge import stability

        rule = stability.heavy_ball(lr=0.1, beta=0.9)
        rule.threshold  # 38
        rule.spectral_radius(37.9) < 1 < rule.spectral_radius(38.1)
        ```
    """

    position: tuple[float, float]
    gradient: tuple[float, float]

    def companion(self, curvature: Float[ArrayLike, "*n"]) -> Float[Array, "*n 2 2"]:
        r"""The matrix that takes $(x_t, x_{t-1})$ to $(x_{t+1}, x_t)$."""
        curvature = jnp.asarray(curvature, jnp.result_type(float))
        now, before = (p - curvature * q for p, q in zip(self.position, self.gradient, strict=True))
        one, zero = jnp.ones_like(curvature), jnp.zeros_like(curvature)
        return jnp.stack([jnp.stack([now, before], -1), jnp.stack([one, zero], -1)], -2)

    def spectral_radius(self, curvature: Float[ArrayLike, "*n"]) -> Float[Array, "*n"]:
        r"""The factor by which an error grows or shrinks per step in the long run, $\max(|\mu_1|, |\mu_2|)$."""
        matrix = self.companion(curvature)
        half, product = matrix[..., 0, 0] / 2, -matrix[..., 0, 1]
        under = half**2 - product
        # The larger of two real roots has no cancellation; the squared modulus of a complex pair is its product.
        real = jnp.abs(half) + jnp.sqrt(jnp.maximum(under, 0.0))
        return jnp.where(under >= 0, real, jnp.sqrt(jnp.abs(product)))

    @property
    def stable(self) -> Interval:
        r"""The curvatures at which both roots lie inside the unit circle."""
        (p1, p2), (q1, q2) = self.position, self.gradient
        low, high = -np.inf, np.inf
        # Each condition reads constant > slope * curvature.
        for constant, slope in ((1 + p1 - p2, q1 - q2), (1 - p1 - p2, -(q1 + q2)), (1 + p2, q2)):
            if slope > 0:
                high = min(high, constant / slope)
            elif slope < 0:
                low = max(low, constant / slope)
            elif constant <= 0:
                low, high = np.inf, -np.inf
        return Interval(float(low), float(high))

    @property
    def threshold(self) -> float:
        r"""The largest stable curvature."""
        return self.stable.high


def gradient_descent(lr: float) -> LinearRule:
    r"""Gradient descent, $x_{t+1} = (1 - \eta\lambda)x_t$, stable below $2/\eta$."""
    return heavy_ball(lr, 0.0)


def heavy_ball(lr: float, beta: float) -> LinearRule:
    r"""Momentum, $m_t = \beta m_{t-1} + \lambda x_t$ and $x_{t+1} = x_t - \eta m_t$.

    With $\eta m_{t-1} = x_{t-1} - x_t$ the rule is $x_{t+1} = (1 + \beta - \eta\lambda)x_t - \beta x_{t-1}$, stable
    below $(2 + 2\beta)/\eta$.
    """
    return LinearRule((1 + beta, -beta), (lr, 0.0))


def nesterov(lr: float, beta: float) -> LinearRule:
    r"""Nesterov's momentum, $m_t = \beta m_{t-1} + \lambda x_t$ and $x_{t+1} = x_t - \eta(\lambda x_t + \beta m_t)$.

    Subtracting $\beta$ times the step before removes $m$:
    $x_{t+1} = (1 + \beta)(1 - \eta\lambda)x_t - \beta(1 - \eta\lambda)x_{t-1}$, stable below
    $(2 + 2\beta)/(\eta(1 + 2\beta))$.
    """
    return LinearRule((1 + beta, -beta), (lr * (1 + beta), -lr * beta))


def adam(lr: float, b1: float, weight_decay: float = 0.0) -> LinearRule:
    r"""Adam at a fixed preconditioner $P$, in the coordinates $P^{1/2}x$ that remove the preconditioner.

    In these coordinates $m_t = \beta_1m_{t-1} + (1 - \beta_1)\lambda x_t$ and $x_{t+1} = (1 - \eta w)x_t - \eta m_t$,
    with decoupled weight decay $w$ and an eigenvalue $\lambda$ of $P^{-1/2}HP^{-1/2}$. This is heavy-ball momentum with
    the step size $(1 - \beta_1)\eta$, stable below $(2 - \eta w)(1 + \beta_1)/((1 - \beta_1)\eta)$. RMSprop is the
    case $\beta_1 = 0$.
    """
    keep = 1 - lr * weight_decay
    return LinearRule((keep + b1, -b1 * keep), ((1 - b1) * lr, 0.0))
