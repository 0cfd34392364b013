r"""Random quadratic regression: how fast curvature begins to grow, and how nonlinear a step is.

Residuals, Jacobian and second derivative have independent Gaussian entries. Their variances are $\sigma_z^2$,
$\sigma_J^2$, and $s$ off the diagonal of $Q$ ($2s$ on the diagonal); $c = D/P$.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from secant.theory.regression.quadratic_regression import Convention, Regression

VARIANCE: dict[Convention, float | None] = {"averaged": 0.5, "goe": 1.0, "independent": None}
"""Variance $s$ of an entry of $Q_\\alpha$ off the diagonal; None for a $Q_\\alpha$ that is not symmetric."""

TRACY_WIDOM_MEAN = -1.2065335745820
"""Mean of the Tracy-Widom law of real symmetric matrices."""


class Derivatives(NamedTuple):
    r"""First and second derivative in time of an eigenvalue under gradient flow."""

    first: Array
    second: Array


def edge(D: int, P: int) -> float:
    r"""Largest eigenvalue of $JJ^\top$ for large $D$ and $P$, in units of $\sigma_J^2$: $(\sqrt P + \sqrt D)^2$."""
    return float((np.sqrt(P) + np.sqrt(D)) ** 2)


def mean_top(D: int, P: int) -> float:
    r"""Mean of the largest eigenvalue of $JJ^\top$ at finite size, $\mu - 1.2065\,s$, in units of $\sigma_J^2$.

    By the law of Tracy and Widom $\mu = (\sqrt{P-1} + \sqrt D)^2$ and
    $s = (\sqrt{P-1} + \sqrt D)\,(1/\sqrt{P-1} + 1/\sqrt D)^{1/3}$.
    """
    a, b = np.sqrt(P - 1), np.sqrt(D)
    return float((a + b) ** 2 + TRACY_WIDOM_MEAN * (a + b) * (1 / a + 1 / b) ** (1 / 3))


def eigenvalue_derivatives(state: Regression, Q: Float[Array, "d p p"]) -> Derivatives:
    r"""The rates $\dot\lambda$, $\ddot\lambda$ of the largest eigenvalue of $K = JJ^\top$ in gradient flow, exactly.

    With $w = J^\top z$, $\dot J = -Q(w, \cdot)$, $\dot z = -Jw$, $\dot w = \dot J^\top z + J^\top\dot z$ and
    $\ddot J = -Q(\dot w, \cdot)$,

    $$\dot\lambda = v_1^\top\dot Kv_1, \qquad
      \ddot\lambda = v_1^\top\ddot Kv_1 + 2\sum_{k>1}\frac{(v_1^\top\dot Kv_k)^2}{\lambda_1 - \lambda_k}.$$
    """
    z, J = state
    w = J.T @ z
    J1 = -Q @ w
    w1 = J1.T @ z - J.T @ (J @ w)
    J2 = -Q @ w1
    values, vectors = jnp.linalg.eigh(J @ J.T)
    top = vectors[:, -1]
    K1 = J1 @ (J.T @ top) + J @ (J1.T @ top)
    direct = 2 * (top @ J2) @ (J.T @ top) + 2 * jnp.sum((J1.T @ top) ** 2)
    repelled = (vectors[:, :-1].T @ K1) ** 2 / (values[-1] - values[:-1])
    return Derivatives(top @ K1, direct + 2 * jnp.sum(repelled))


def mean_acceleration(J: Float[Array, "d p"], sigma_z: Array | float, variance: float | None = 0.5) -> Float[Array, ""]:
    r"""Mean of $\ddot\lambda$ over residuals and second derivatives, for a given Jacobian, exactly.

    $$\mathbb E[\ddot\lambda \mid J] = s\sigma_z^2\Bigl[2(P+1)(\lambda_1 + t)
      + 2\sum_{k>1}\frac{(\lambda_1+\lambda_k)\,t + \lambda_1^2 + \lambda_k^2}{\lambda_1 - \lambda_k}\Bigr],
      \qquad t = \mathrm{tr}\,JJ^\top.$$

    Args:
        J: the Jacobian.
        sigma_z: $\sigma_z$.
        variance: $s$; None for a $Q$ that is not symmetric, with independent entries of unit variance.
    """
    return acceleration_given(jnp.linalg.eigvalsh(J @ J.T), J.shape[1], sigma_z, variance)


def acceleration_given(
    values: Float[Array | np.ndarray, "*n d"], P: int, sigma_z: Array | float, variance: float | None = 0.5
) -> Any:
    r"""Mean of $\ddot\lambda$ given all $D$ eigenvalues of $JJ^\top$, as an array of NumPy or of JAX.

    The formula is that of [`mean_acceleration`][secant.theory.regression.random_regression.mean_acceleration]. If $Q$
    has independent entries of unit variance, and $(z, J)$ flows as with a symmetric $Q$,

    $$\mathbb E[\ddot\lambda \mid J] = 2\sigma_z^2\Bigl[\lambda_1 + Pt
      + \sum_{k>1}\frac{\lambda_1+\lambda_k}{\lambda_1 - \lambda_k}\,t\Bigr].$$

    Args:
        values: the eigenvalues of one Jacobian or of many, in ascending order.
        P: number of parameters.
        sigma_z: $\sigma_z$.
        variance: $s$; None for independent entries.
    """
    top, rest, trace = values[..., -1], values[..., :-1], values.sum(-1)
    gaps = top[..., None] - rest
    pulls = ((top[..., None] + rest) / gaps).sum(-1) * trace
    if variance is None:
        return 2 * sigma_z**2 * (top + P * trace + pulls)
    squares = ((top[..., None] ** 2 + rest**2) / gaps).sum(-1)
    return 2 * variance * sigma_z**2 * ((P + 1) * (top + trace) + pulls + squares)


def acceleration_limit(D: int, P: int, sigma_z: float, sigma_J: float, variance: float = 0.5) -> float:
    r"""$\mathbb E[\ddot\lambda]$ for large $D$ and $P$: $2s\,\sigma_z^2\sigma_J^2P^2D\,(1 + \sqrt c)^2$.

    This is $2s\,DP\,\sigma_z^2$ times the eigenvalue at the edge.
    """
    return float(2 * variance * D * P * sigma_z**2 * sigma_J**2 * edge(D, P))


def nonlinearity_ratio(D: int, P: int, sigma_z: float, lr: float = 1.0, variance: float = 0.5) -> float:
    r"""The root mean square of $\frac12\eta^2Q(w, w)$ in the first step over that of $\eta JJ^\top z$, exactly.

    $$r_{NL} = \frac{\eta\sigma_z}{2}\sqrt{\frac{2s\,D(D+2)(P+2)}{P+D+1}}
      \;\to\; \frac{\eta\sigma_zD}{2\sqrt{1 + D/P}} \quad (s = \tfrac12).$$
    """
    return float(lr * sigma_z / 2 * np.sqrt(2 * variance * D * (D + 2) * (P + 2) / (P + D + 1)))


def nonlinearity_spread(D: int, P: int) -> float:
    r"""The spread of draws around
    [`nonlinearity_ratio`][secant.theory.regression.random_regression.nonlinearity_ratio].

    Divided by $\sqrt n$ it is the relative standard error of the ratio of two root mean squares over $n$ draws. With
    independent $a, q \sim \chi^2_D$, $b \sim \chi^2_P$ and $c \sim \chi^2_{D-1}$ the two squares are, up to constants,
    $|Q(w, w)|^2 = (ab)^2q$ and $|JJ^\top z|^2 = ab\,(b + c)$. For means $X$, $Y$ of $n$ draws the variance of
    $\log(X/Y)$ is, to first order, the variance of $X/\mathbb EX - Y/\mathbb EY$ for one draw, over $n$. The root
    halves the error.
    """

    def moment(freedom: int, power: int) -> float:
        """Moment of a chi-square."""
        return float(np.prod([freedom + 2.0 * i for i in range(power)]))

    def linear(a: int, b: int) -> float:
        r"""The mean $\mathbb E\,a^pb^q(b + c)$ with powers `a`, `b`."""
        return moment(D, a) * (moment(P, b + 1) + moment(P, b) * moment(D - 1, 1))

    curved = moment(D, 2) * moment(P, 2) * moment(D, 1)
    squared = moment(D, 4) * moment(P, 4) * moment(D, 2) / curved**2
    product = moment(D, 1) * linear(3, 3) / (curved * linear(1, 1))
    last = moment(P, 4) + 2 * moment(P, 3) * moment(D - 1, 1) + moment(P, 2) * moment(D - 1, 2)
    return float(np.sqrt(squared - 2 * product + moment(D, 2) * last / linear(1, 1) ** 2) / 2)


def mean_square_velocity(
    values: Float[np.ndarray, "*n d"], sigma_z: float, variance: float | None = 0.5
) -> Float[np.ndarray, "*n"]:
    r"""Mean squared velocity of the largest singular value, $\mathbb E[\dot\sigma_0^2\mid J]$.

    It is $s\sigma_z^2(t + \lambda)$ with $t = |J|^2$. For $Q_\alpha$ of independent entries it is $\sigma_z^2t$. The
    argument `values` is that of [`acceleration_given`][secant.theory.regression.random_regression.acceleration_given].
    """
    trace = values.sum(axis=-1)
    return np.asarray(sigma_z**2 * (trace if variance is None else variance * (trace + values[..., -1])))


def smooth_acceleration(
    top: Float[np.ndarray, "*n"], D: int, P: int, sigma_z: float, sigma_J: float, variance: float | None = 0.5
) -> Float[np.ndarray, "*n"]:
    r"""A function of the largest eigenvalue $\lambda$ alone that has the mean of $\ddot\lambda$ at every size.

    $$\mathbb E[\ddot\lambda] = 2s\,\sigma_z^2\,\bigl(DP\,\mathbb E[\lambda] + \mathbb E[\lambda^2]/\sigma_J^2\bigr),$$

    or $2\sigma_z^2(DP + 1)\,\mathbb E[\lambda]$ for independent entries. Unlike the mean given the Jacobian it contains
    no repulsion by the other eigenvalues, and so it has a finite variance.

    Args:
        top: largest eigenvalues of $JJ^\top$.
        D: residuals.
        P: parameters.
        sigma_z: $\sigma_z$.
        sigma_J: $\sigma_J$.
        variance: $s$; None for independent entries.
    """
    if variance is None:
        return 2 * sigma_z**2 * (D * P + 1) * top
    return 2 * variance * sigma_z**2 * (D * P * top + top**2 / sigma_J**2)


def repulsion(values: Float[np.ndarray, "n d"], P: int, sigma_J: float) -> Float[np.ndarray, "2 n"]:
    r"""The repulsion $\sum_k\lambda/(\lambda - \lambda_k)$ by other nonzero eigenvalues, and a term of equal mean.

    The second term is $\frac12(\lambda/\sigma_J^2 - |P - D| - 1)$. Integration by parts in the density of the
    eigenvalues shows that the means are equal.

    Args:
        values: all eigenvalues of $JJ^\top$ in ascending order, one row per Jacobian.
        P: parameters.
        sigma_J: $\sigma_J$.
    """
    D, top = values.shape[1], values[:, -1]
    others = values[:, max(0, D - P) : -1]
    return np.stack([(top[:, None] / (top[:, None] - others)).sum(axis=1), (top / sigma_J**2 - abs(P - D) - 1) / 2])


def two_residual_acceleration(
    P: int, sigma_z: float, sigma_J: float, variance: float | None = 0.5
) -> tuple[float, float]:
    r"""Mean acceleration for two residuals by quadrature, from the mean given the Jacobian and from the smooth form.

    The trace $t$ and the larger eigenvalue's share $u$ of $t$ are independent. $t/\sigma_J^2$ is chi-squared with $2P$
    degrees of freedom, and $u$ has the density $(u(1-u))^{(P-3)/2}(2u - 1)$ on $(\tfrac12, 1)$. The last factor cancels
    the pole of the repulsion. With $1 - u = x^2$ the integrand is smooth.

    Args:
        P: parameters, at least two.
        sigma_z: $\sigma_z$.
        sigma_J: $\sigma_J$.
        variance: $s$; None for independent entries.
    """
    x, weight = np.polynomial.legendre.leggauss(200)
    x = (x + 1) / 2 * np.sqrt(0.5)
    u = 1 - x**2
    weight = weight * x ** (P - 2) * u ** ((P - 3) / 2) * (2 * u - 1)
    weight /= weight.sum()
    first, scale = 2 * P, sigma_J**2
    second = first * (first + 2)  # second moment of t / sigma_J^2
    # Given J, the mean is homogeneous of degree one in the eigenvalues.
    given = acceleration_given(np.stack([1 - u, u], axis=-1), P, sigma_z, variance)
    top, square = first * scale * (weight @ u), second * scale**2 * (weight @ u**2)
    if variance is None:
        smooth = sigma_z**2 * (2 * (2 * P + 1) * top)
    else:
        smooth = sigma_z**2 * 2 * variance * (2 * P * top + square / scale)
    return float(first * scale * weight @ given), float(smooth)
