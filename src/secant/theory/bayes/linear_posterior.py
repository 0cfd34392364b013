r"""Bayesian interpolation with deep linear networks, at every size.

A network $f(x) = W^{(L+1)}\cdots W^{(1)}x = \theta^\top x$ with weights of prior variance $\sigma^2/N_{l-1}$ fits
$P < N_0$ data exactly. The posterior is the prior restricted to $\theta_\parallel = \theta_*$, the interpolant of
least norm. Only the part $\theta_\perp$ off the span of the data stays free, and its direction is uniform. The hidden
layers enter through one scale $S$ only, and given $S$ the vector $\theta$ is Gaussian:

$$\theta \mid S \sim \mathcal N\Bigl(0, \frac{\sigma^2}{N_0}S\,I\Bigr), \qquad
  S = \prod_{l=1}^L \frac{\sigma^2}{N_l}\chi^2_{N_l} .$$

The mixture over $S$ is a Meijer function, the contour integral
$G(z \mid b) = \frac1{2\pi i}\int\prod_j\Gamma(b_j + s)\,z^{-s}\,ds$. It is computed along the vertical line through
the saddle point of its integrand.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from secant.core.arguments import positive, share, whole
from secant.core.types import Real

SETTLED = 45.0
"""The contour ends where its integrand has fallen by this many powers of e."""


class Interpolant(NamedTuple):
    r"""The interpolant of least norm, and the volume of the data.

    Attributes:
        theta: $\theta_*$, shape `(inputs,)`.
        log_volume: $\frac12\log\det X^\top X$; subtract it from a log evidence to get the density of the labels.
    """

    theta: np.ndarray
    log_volume: float


class Scales(NamedTuple):
    r"""Draws of the scale of a prior, and their weights given the data.

    Attributes:
        scale: $\frac{\sigma^2}{N_0}S$, the variance of an entry of $\theta$.
        log_weight: log density of $\theta_\parallel = \theta_*$ at this scale; the evidence is the mean of its
            exponential.
    """

    scale: np.ndarray
    log_weight: np.ndarray


def interpolant(X: Float[np.ndarray, "inputs data"], Y: Float[np.ndarray, " data"]) -> Interpolant:
    r"""The solution of $X^\top\theta = Y$ of least norm.

    Args:
        X: one input per column; the columns are independent, and fewer than the rows.
        Y: labels.
    """
    if X.shape[1] >= X.shape[0]:
        raise ValueError(f"interpolant: `X` must have fewer columns, the data, than rows, got the shape {X.shape}.")
    q, r = np.linalg.qr(X)
    sizes = np.abs(np.diag(r))
    if sizes.min() <= 1e-12 * sizes.max():
        raise ValueError("interpolant: `X` must have independent columns; some are combinations of others.")
    return Interpolant(q @ np.linalg.solve(r.T, Y), float(np.log(sizes).sum()))


def log_meijer(orders: Sequence[Any] | np.ndarray, log_z: Real) -> float:
    r"""$\log G^{q,0}_{0,q}(z \mid b_1, \dots, b_q)$, by a contour through the saddle point.

    The trapezoidal rule runs along $u + iy$, where $u$ solves $\sum_j\psi(b_j + u) = \log z$. Its error falls faster
    than any power of the spacing. Equal orders are counted, so thousands of them cost as much as one.

    Args:
        orders: $b_j$, any real numbers.
        log_z: $\log z$.

    Example:
        ```python
        import math
        from secant.theory.bayes.linear_posterior import log_meijer

        print(f"{log_meijer((3, 3.5, 4.5), math.log(5.3)):.10f}")
        ```
        ```text
        1.8539931258
        ```
    """
    return _contour(np.asarray(orders, float), float(log_z))[0]


def log_evidence(norm2: Real, data: Real, widths: Sequence[Any], variance: Real = 1.0) -> float:
    r"""Log evidence: the log density of the labels, up to the volume of the data.

    $$\log Z = -\frac P2\log\pi|\theta_*|^2 - \sum_{l=1}^L\log\Gamma\Bigl(\frac{N_l}2\Bigr)
      + \log G\Bigl(|\theta_*|^2\prod_{l=0}^L\frac{N_l}{2\sigma^2} \,\Big|\,
        \frac P2, \frac{N_1}2, \dots, \frac{N_L}2\Bigr).$$

    Args:
        norm2: $|\theta_*|^2$, from [`interpolant`][secant.theory.bayes.linear_posterior.interpolant].
        data: $P$, smaller than the number of inputs.
        widths: $N_0, \dots, N_L$, from the inputs to the last hidden layer.
        variance: $\sigma^2$.
    """
    from scipy import special

    norm2, P, N, variance = _checked("log_evidence", norm2, data, widths, variance)
    orders, log_z = _orders(norm2, P, N, variance)
    constant = P / 2 * math.log(math.pi * norm2) + float(special.gammaln(N[1:] / 2).sum())
    return _contour(orders, log_z)[0] - constant


def off_span(norm2: Real, data: Real, widths: Sequence[Any], variance: Real = 1.0, power: int = 1) -> float:
    r"""Posterior mean of $|\theta_\perp|^{2k}$, exactly.

    It is $\bigl(\frac{N_0 - P}2\bigr)_k|\theta_*|^{2k}\,G(z \mid \frac P2 - k, \dots)/G(z \mid \frac P2, \dots)$. A new
    input with a part $x_\perp$ off the span of the data has the posterior variance
    $\frac{|x_\perp|^2}{N_0 - P}\,\mathbb E\,|\theta_\perp|^2$.

    Args:
        norm2: $|\theta_*|^2$.
        data: $P$.
        widths: $N_0, \dots, N_L$.
        variance: $\sigma^2$.
        power: $k$.
    """
    from scipy import special

    norm2, P, N, variance = _checked("off_span", norm2, data, widths, variance)
    k = whole("off_span", "power", power)
    orders, log_z = _orders(norm2, P, N, variance)
    below = np.concatenate([[P / 2 - k], orders[1:]])
    rising = float(special.poch((N[0] - P) / 2, k))
    return rising * norm2**k * math.exp(_contour(below, log_z)[0] - _contour(orders, log_z)[0])


def off_span_saddle(norm2: Real, data: Real, widths: Sequence[Any], variance: Real = 1.0) -> float:
    r"""The value of $|\theta_\perp|^2$ for large $P$, $N_0$ and $N_l$, where the posterior has one scale.

    It is $\frac{1 - \alpha}\alpha|\theta_*|^2/(1 + \nu/P)$ with $\alpha = P/N_0$ and
    $(1 + \frac\nu P)\prod_{l=1}^L(1 + \frac\nu{N_l}) = |\theta_*|^2/(\alpha\sigma^{2(L+1)})$.

    Args:
        norm2: $|\theta_*|^2$.
        data: $P$.
        widths: $N_0, \dots, N_L$.
        variance: $\sigma^2$.
    """
    norm2, P, N, variance = _checked("off_span_saddle", norm2, data, widths, variance)
    alpha = P / N[0]
    sizes, counts = np.unique(np.concatenate([[P], N[1:]]), return_counts=True)
    target = math.log(norm2 / alpha) - len(N) * math.log(variance)
    # In the logarithm of 1 + nu/m, where m is the smallest size, the equation is smooth and rising on the whole axis.
    m = float(sizes[0])
    nu = lambda t: m * math.expm1(t)  # noqa: E731
    root = _root(lambda t: float(counts @ np.log1p(nu(t) / sizes)) - target, -1.0, 1.0)
    return (1 - alpha) / alpha * norm2 / (1 + nu(root) / P)


def effective_depth(data: Real, widths: Sequence[Any]) -> float:
    r"""The effective depth $\lambda = P\sum_{l=1}^L 1/N_l$.

    For $P/N \to 0$ the posterior depends on depth, width and number of data through $\lambda$ alone.

    Args:
        data: $P$.
        widths: $N_0, \dots, N_L$.
    """
    _, P, N, _ = _checked("effective_depth", 1.0, data, widths, 1.0)
    return float(P * np.sum(1 / N[1:]))


def off_span_limit(norm2: Real, ratio: Real, depth: Real) -> float:
    r"""The value of $|\theta_\perp|^2$ for $P/N \to 0$ with $\sigma^2 = 1$, at the effective depth $\lambda$.

    It is $(1 - \alpha)e^s$ with $|\theta_*|^2/\alpha = e^s(1 + s/\lambda)$. At $\lambda \to 0$ it is $1 - \alpha$,
    whatever the data. At $\lambda \to \infty$ it is $\frac{1 - \alpha}\alpha|\theta_*|^2$, the value of the best prior.

    Args:
        norm2: $|\theta_*|^2$.
        ratio: $\alpha = P/N_0$, between 0 and 1.
        depth: $\lambda$, above 0.
    """
    norm2 = positive("off_span_limit", "norm2", norm2)
    alpha, depth = share("off_span_limit", "ratio", ratio), positive("off_span_limit", "depth", depth)
    target = math.log(norm2 / alpha)
    s = lambda t: depth * math.expm1(t)  # noqa: E731 (1 + s/lambda is e^t)
    root = _root(lambda t: s(t) + t - target, -1.0, 1.0)
    return (1 - alpha) * math.exp(s(root))


def best_variance(norm2: Real, data: Real, widths: Sequence[Any]) -> float:
    r"""The prior variance $\sigma^2$ of greatest evidence; $\sigma_*^{2(L+1)} = |\theta_*|^2/\alpha$ for large sizes.

    At this variance the mean of $s$ over the contour is zero.

    Args:
        norm2: $|\theta_*|^2$.
        data: $P$.
        widths: $N_0, \dots, N_L$.
    """
    norm2, P, N, _ = _checked("best_variance", norm2, data, widths, 1.0)
    guess = math.log(norm2 * N[0] / P) / len(N)
    slope = lambda t: -_contour(*_orders(norm2, P, N, math.exp(t)))[1]  # noqa: E731
    return math.exp(_root(slope, guess - 0.5 / len(N), guess + 0.5 / len(N)))


def scales(
    random: np.random.Generator, norm2: Real, data: Real, widths: Sequence[Any], draws: int, variance: Real = 1.0
) -> Scales:
    r"""The scale mixture by sampling: $S$ from one $\chi^2$ per hidden layer, weighted by the density of the data.

    The evidence is the mean of the weights $(2\pi v)^{-P/2}e^{-|\theta_*|^2/(2v)}$, $v = \sigma^2S/N_0$. A posterior
    mean is a weighted mean; for $|\theta_\perp|^2$ it is the weighted mean of $(N_0 - P)v$.

    Args:
        random: source of randomness.
        norm2: $|\theta_*|^2$.
        data: $P$.
        widths: $N_0, \dots, N_L$.
        draws: number of draws.
        variance: $\sigma^2$.
    """
    norm2, P, N, variance = _checked("scales", norm2, data, widths, variance)
    chi = random.standard_gamma(N[1:] / 2, (whole("scales", "draws", draws), len(N) - 1))
    v = variance / N[0] * np.prod(2 * variance / N[1:] * chi, axis=1)
    return Scales(v, log_weight(norm2, P, v))


def log_weight(norm2: Real, data: Real, scale: Real) -> Any:
    r"""Log density of $\theta_\parallel = \theta_*$ if entries of $\theta$ have the variance $v$.

    It is $-\frac P2\log 2\pi v - |\theta_*|^2/(2v)$.

    Args:
        norm2: $|\theta_*|^2$.
        data: $P$.
        scale: $v$.
    """
    return -data / 2 * np.log(2 * np.pi * scale) - float(norm2) / (2 * scale)


def evidence_grid(
    norm2: Real,
    data: Real,
    inputs: Real,
    depths: Sequence[Any],
    widths: Sequence[Any],
    variances: Sequence[Any] = (1.0,),
) -> Float[np.ndarray, "depths widths variances"]:
    r"""Log evidence of networks of equal hidden widths, to choose a model by its evidence.

    Args:
        norm2: $|\theta_*|^2$.
        data: $P$.
        inputs: $N_0$.
        depths: numbers of hidden layers.
        widths: of each hidden layer.
        variances: of the prior.
    """
    grid = itertools.product(depths, widths, variances)
    found = [log_evidence(norm2, data, (inputs, *[width] * depth), variance) for depth, width, variance in grid]
    return np.reshape(found, (len(depths), len(widths), len(variances)))


def _checked(
    caller: str, norm2: Any, data: Any, widths: Sequence[Any], variance: Any
) -> tuple[float, int, np.ndarray, float]:
    sizes = [whole(caller, "widths", width) for width in widths]
    count = whole(caller, "data", data)
    if not sizes or count >= sizes[0]:
        raise ValueError(
            f"{caller}: `data` must be smaller than the number of inputs, the first of `widths`, got {data!r} and "
            f"{tuple(widths)!r}."
        )
    return positive(caller, "norm2", norm2), count, np.array(sizes, float), positive(caller, "variance", variance)


def _orders(norm2: float, P: int, N: np.ndarray, variance: float) -> tuple[np.ndarray, float]:
    log_z = math.log(norm2) - float(np.sum(np.log(2 * variance / N)))
    return np.concatenate([[P / 2], N[1:] / 2]), log_z


def _contour(orders: np.ndarray, log_z: float) -> tuple[float, float]:
    """The logarithm of the Meijer function, and the mean of s over its contour."""
    from scipy import special

    b, counts = np.unique(orders, return_counts=True)
    smallest = float(b[0])
    # The unknown is the logarithm of the saddle point's distance from the first pole, which may be any number.
    u = math.exp(_root(lambda t: float(counts @ special.digamma(b - smallest + math.exp(t))) - log_z, -1.0, 1.0))
    curvature = float(counts @ special.polygamma(1, b - smallest + u))
    u -= smallest
    middle = float(counts @ special.gammaln(b + u)) - u * log_z

    def relative(y: np.ndarray) -> np.ndarray:
        return counts @ special.loggamma(b[:, None] + u + 1j * y) - (u + 1j * y) * log_z - middle

    h = 1 / (8 * math.sqrt(curvature))
    points = 64
    while relative(np.array([h * points]))[0].real > -SETTLED:
        points *= 2
    y = h * np.arange(points + 1)
    values = np.exp(relative(y))
    values[0] /= 2
    total = float(values.real.sum())
    return middle + math.log(total * h / math.pi), u - float((y * values.imag).sum()) / total


def _root(function: Any, low: float, high: float) -> float:
    """The root of a rising function, from an interval that is widened until it has one."""
    from scipy import optimize

    while function(low) > 0:
        low, high = low - 2 * (high - low), low
    while function(high) < 0:
        low, high = high, high + 2 * (high - low)
    return float(optimize.brentq(function, low, high, xtol=1e-14, rtol=1e-14))
