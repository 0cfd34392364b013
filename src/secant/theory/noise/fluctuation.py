r"""Stationary states of SGD: fluctuation relations, the valley model, and walks with a stride that varies in space.

In a stationary state every observable keeps its mean under a step, $\langle O(\theta)\rangle =
\langle [O(\theta - \eta\nabla L^B)]\rangle$ with $[\cdot]$ over batches. For $O = \theta$ that is
$\langle\nabla L\rangle = 0$; for $O = \theta_i^2$ it is

$$\langle\theta_i\,\partial_iL\rangle = \tfrac\eta2\langle\tilde C_{ii}\rangle, \qquad
  \tilde C = [\nabla L^B\,\nabla L^{B\top}],$$

exactly, at any step size. For a quadratic loss $O = L$ gives $\langle|\nabla L|^2\rangle =
\frac\eta2\langle\mathrm{tr}\,H\tilde C\rangle$. In a linear regression the stationary covariance solves a linear
equation, so both sides can be computed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from secant.core.arguments import at_least_zero, positive
from secant.theory.noise.mean_square import Sampling, pairs


class NoiseMatrices(NamedTuple):
    r"""Moments of a batch gradient.

    Attributes:
        mean: $\nabla L$.
        second: $\tilde C = [\nabla L^B\,\nabla L^{B\top}]$.
        covariance: $C = \tilde C - \nabla L\,\nabla L^\top$.
    """

    mean: Float[np.ndarray, " d"]
    second: Float[np.ndarray, "d d"]
    covariance: Float[np.ndarray, "d d"]


def noise_matrices(gradients: np.ndarray, batch: int, sampling: Sampling = "fixed") -> NoiseMatrices:
    r"""Covariance of a batch gradient $\nabla L^B = \frac1B\sum_kS_kg_k$, from the gradients of the samples.

    * Bernoulli batches: $C = \frac{1 - p}{Bm}\sum_kg_kg_k^\top$ with $p = B/m$, not centred.
    * Batches of a fixed size: $C = \frac1B\frac{m - B}{m - 1}(\frac1m\sum_kg_kg_k^\top - \bar g\bar g^\top)$.
    * Batches with replacement: the same formula without its second factor.

    Args:
        gradients: gradients of the samples, shape `(m, d)`.
        batch: $B$.
        sampling: law of the batches.

    Example:
        ```python
        import numpy as np
        from secant.theory.noise.fluctuation import noise_matrices

        g = np.array([[1.0], [2.0], [3.0]])
        print(*(round(float(noise_matrices(g, 1, law).covariance[0, 0]), 4) for law in ("bernoulli", "fixed")))
        ```
        ```text
        3.1111 0.6667
        ```
    """
    g = np.asarray(gradients, float)
    if g.ndim != 2 or not np.isfinite(g).all():
        raise ValueError(f"noise_matrices: `gradients` must be finite, one row per sample, got shape {g.shape}.")
    m, law = len(g), pairs(len(g), batch, sampling)
    mean, square = g.mean(0), g.T @ g / m
    if sampling == "bernoulli":
        covariance = (1 - law.single) / batch * square
    else:
        left = ((m - batch) / (m - 1) if m > 1 else 0.0) if sampling == "fixed" else 1.0
        covariance = left / batch * (square - np.outer(mean, mean))
    return NoiseMatrices(mean, covariance + np.outer(mean, mean), covariance)


class Stationary(NamedTuple):
    r"""The stationary state of SGD in a linear regression.

    Attributes:
        minimiser: $\theta^*$, the mean of the stationary state.
        hessian: $H$.
        covariance: $S = \langle(\theta - \theta^*)(\theta - \theta^*)^\top\rangle$; infinite if there is no stationary
            state.
        second: $\langle\tilde C\rangle$; infinite if there is no stationary state.
        reason: why there is no stationary state, or an empty text.
    """

    minimiser: Float[np.ndarray, " d"]
    hessian: Float[np.ndarray, "d d"]
    covariance: Float[np.ndarray, "d d"]
    second: Float[np.ndarray, "d d"]
    reason: str


def stationary(x: np.ndarray, y: np.ndarray, lr: float, batch: int, sampling: Sampling = "fixed") -> Stationary:
    r"""The stationary covariance of SGD on $L = \frac1{2m}\sum_k(x_k\cdot\theta - y_k)^2$, exactly at any step size.

    The covariance solves $HS + SH = \eta\tilde C(S)$. Here $\tilde C$ belongs to the law of the batches and is averaged
    over $\theta$: with residuals $\rho_k$ at the minimiser, $a = ES_kS_l$ and $a + b = ES_k^2$,
    $B^2\tilde C = m^2a\,HSH + b\sum_k(x_k^\top Sx_k + \rho_k^2)\,x_kx_k^\top$.

    Args:
        x: inputs, shape `(m, d)`, of full column rank.
        y: targets, shape `(m,)`.
        lr: $\eta$. If second moments grow at this step size, there is no stationary state, and `reason` gives the
            growth.
        batch: $B$.
        sampling: law of the batches.

    Example:
        ```python
        import numpy as np
        from secant.theory.noise.fluctuation import stationary

        x, y = np.array([[1.0], [2.0], [1.0]]), np.array([1.0, 0.0, 3.0])
        state = stationary(x, y, 0.1, 1)
        print(round(float(state.hessian[0, 0] * state.covariance[0, 0] / (0.05 * state.second[0, 0])), 12))
        print(stationary(x, y, 5.0, 1).reason)
        ```
        ```text
        1.0
        second moments grow by a factor of 131 a step
        ```
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    if x.ndim != 2 or y.shape != x.shape[:1] or not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError(f"stationary: `x`, `y` must be finite, one row per sample, got shapes {x.shape}, {y.shape}.")
    positive("stationary", "lr", lr)
    m, d = x.shape
    law = pairs(m, batch, sampling)
    if np.linalg.matrix_rank(x) < d:
        raise ValueError(f"stationary: `x` must have rank {d}, or some direction never moves. Leave out some features.")
    minimiser = np.linalg.lstsq(x, y, rcond=None)[0]
    rho = x @ minimiser - y
    H, one, rest = x.T @ x / m, np.eye(d), law.twice - law.together
    outer = np.einsum("ki,kj->kij", x, x).reshape(m, -1)
    of_covariance = (law.together * m**2 * np.kron(H, H) + rest * outer.T @ outer) / batch**2
    at_minimum = rest / batch**2 * (rho**2 @ outer)
    linear = np.kron(H, one) + np.kron(one, H)
    growth = float(np.abs(np.linalg.eigvals(np.eye(d * d) - lr * linear + lr**2 * of_covariance)).max())
    if growth >= 1:
        nothing = np.full((d, d), np.inf)
        return Stationary(minimiser, H, nothing, nothing, f"second moments grow by a factor of {growth:.3g} a step")
    S = np.linalg.solve(linear - lr * of_covariance, lr * at_minimum).reshape(d, d)
    second = (of_covariance @ S.ravel() + at_minimum).reshape(d, d)
    return Stationary(minimiser, H, (S + S.T) / 2, (second + second.T) / 2, "")


def valley_variance(alpha: float, lr: float, curvature: float) -> float:
    r"""The variance across a valley, $\langle\bar\theta^2\rangle = \frac{\alpha\eta}{2(1 - \eta\lambda)}$.

    The model is SGD on $L = \lambda\bar\theta^2$, whose Hessian is $2\lambda$, with Gaussian noise of variance $\alpha$
    times the Hessian: $\bar\theta' = (1 - 2\eta\lambda)\bar\theta + \eta\sqrt{2\alpha\lambda}\,\xi$. At small steps the
    variance is $\alpha\eta/2$ in every direction, however steep.

    Args:
        alpha: noise over curvature.
        lr: $\eta$.
        curvature: $\lambda$; at $1/\eta$ and above there is no stationary state, and the variance is infinite.

    Example:
        ```python
        from secant.theory.noise.fluctuation import valley_variance

        print(round(valley_variance(0.4, 0.01, 1.3), 7), valley_variance(0.4, 1.0, 1.3))
        ```
        ```text
        0.0020263 inf
        ```
    """
    at_least_zero("valley_variance", "alpha", alpha)
    positive("valley_variance", "lr", lr)
    positive("valley_variance", "curvature", curvature)
    return alpha * lr / (2 * (1 - lr * curvature)) if lr * curvature < 1 else float("inf")


def valley_drift(slopes: np.ndarray, alpha: float, lr: float) -> Float[np.ndarray, " k"]:
    r"""The mean change of the curvatures $\lambda_i(\hat\theta)$ of a valley in one step, to leading order.

    On $L = \sum_i\lambda_i(\hat\theta)\,\bar\theta_i^2$ the flat directions feel
    $-\eta\sum_i\langle\bar\theta_i^2\rangle\nabla\lambda_i$. With $\langle\bar\theta_i^2\rangle = \alpha\eta/2$ for all
    $i$ this gives $E\,\Delta\lambda_i = -\frac{\alpha\eta^2}2\nabla\lambda_i\cdot\sum_j\nabla\lambda_j$. The trace
    $2\sum_i\lambda_i$ of the Hessian therefore falls by $\alpha\eta^2|\sum_i\nabla\lambda_i|^2$.

    Args:
        slopes: $\nabla\lambda_i$, one row each.
        alpha: noise over curvature.
        lr: $\eta$.

    Example:
        ```python
        import numpy as np
        from secant.theory.noise.fluctuation import valley_drift

        print(valley_drift(np.array([[2.0, 0.0], [-1.0, 1.0]]), 1.0, 0.1))
        ```
        ```text
        [-0.01  0.  ]
        ```
    """
    slopes = np.asarray(slopes, float)
    if slopes.ndim != 2:
        raise ValueError(f"valley_drift: `slopes` must hold one gradient per row, got shape {slopes.shape}.")
    at_least_zero("valley_drift", "alpha", alpha)
    positive("valley_drift", "lr", lr)
    return -alpha * lr**2 / 2 * (slopes @ slopes.sum(0)) + 0.0


def ring_walk(strides: np.ndarray) -> Float[np.ndarray, " n"]:
    r"""The stationary law of a walk on a ring that steps $\pm s(\theta)$ with equal chances, exactly.

    If $s$ varies slowly, the density is proportional to $1/s^2$, because $\frac12\partial^2(s^2p)$ must vanish. The
    walk stays where its strides are short.

    Args:
        strides: the stride at every site, in sites, at least 1.

    Example:
        ```python
        import numpy as np
        from secant.theory.noise.fluctuation import ring_walk

        law = ring_walk(np.repeat([1, 2], 200))
        print(round(float(law[:200].sum()), 4), ring_walk(np.ones(4, int)))
        ```
        ```text
        0.7984 [0.25 0.25 0.25 0.25]
        ```
    """
    from scipy.sparse.csgraph import connected_components

    s = np.asarray(strides)
    if s.ndim != 1 or s.size < 2 or not np.issubdtype(s.dtype, np.integer) or s.min() < 1:
        raise ValueError("ring_walk: `strides` must be whole numbers of at least 1, one per site, for 2 sites or more.")
    n = len(s)
    sites = np.arange(n)
    # Columns are sites left, rows are sites reached. The matrix keeps the stationary law, which sums to 1.
    chances = np.zeros((n, n))
    for sign in (-1, 1):
        np.add.at(chances, ((sites + sign * s) % n, sites), 0.5)
    count, part = connected_components(chances.T > 0, connection="strong")
    left = np.unique(part[np.nonzero(chances.T * (part[:, None] != part[None, :]))[0]])
    if count - len(left) != 1:  # parts that are never left
        raise ValueError(
            "ring_walk: these `strides` split the ring into separate parts, so there is more than one stationary law. "
            "Use strides that connect all sites, for example all 1."
        )
    balance = chances - np.eye(n)
    balance[-1] = 1.0
    return np.linalg.solve(balance, np.eye(n)[-1])


__all__ = [
    "NoiseMatrices",
    "Stationary",
    "noise_matrices",
    "ring_walk",
    "stationary",
    "valley_drift",
    "valley_variance",
]
