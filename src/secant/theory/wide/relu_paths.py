r"""Random ReLU networks on one input, path by path.

The network has widths $n_0, \dots, n_L$ and no biases, $z^{(l)} = W^{(l)}h^{(l-1)}$, $h^{(l)} = \max(z^{(l)}, 0)$, and
linear outputs $z = W^{(L+1)}h^{(L)}$. Its weights are $\sqrt{2/n_{l-1}}$ times numbers of a symmetric law with variance
1. With gates $\xi_j^{(l)} = 1\{z_j^{(l)} > 0\}$ an output is a sum over paths $\gamma$ from an input $p$ to output $q$,

$$z_q = \sum_p x_p \sum_{\gamma: p \to q} W_\gamma^{(L+1)}\prod_{l=1}^L W_\gamma^{(l)}\xi_\gamma^{(l)}.$$

On one input the gates are independent fair coins, and independent of every even function of the weights. All moments
follow from this fact. As the widths grow, they depend on depth and width through $\sum_l 1/n_l$ alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from secant.core.arguments import whole
from secant.core.types import Real

KURTOSIS = {"gaussian": 3.0, "uniform": 1.8, "laplace": 6.0}
r"""Laws of the weights by name, and their fourth moments $\mu_4$ at variance 1."""

MOST_PATHS = 10**6
"""The largest number of paths to add up one by one."""


class Paths(NamedTuple):
    """Output and Jacobian of a network as sums over its paths.

    Attributes:
        number: the number of paths, open or not.
        output: shape `(outputs,)`.
        jacobian: derivatives of outputs in inputs, shape `(outputs, inputs)`.
    """

    number: int
    output: np.ndarray
    jacobian: np.ndarray


class LogNorm(NamedTuple):
    """Cumulants of the logarithm of the squared length of a signal.

    Attributes:
        mean: first cumulant.
        variance: second.
        third: third, which is zero for a normal law.
    """

    mean: float
    variance: float
    third: float


def checked(caller: str, widths: Sequence[Any], name: str = "widths") -> tuple[int, ...]:
    """Widths of a network, from its inputs to its last hidden layer: two numbers or more, all at least 1."""
    if len(widths) < 2:
        raise ValueError(
            f"{caller}: `{name}` must hold the number of inputs and at least one hidden layer, for example "
            f"(4, 32, 32), got {widths!r}."
        )
    return tuple(whole(caller, name, width) for width in widths)


def draw_weights(
    random: np.random.Generator, widths: Sequence[Any], draws: int, outputs: int = 1, law: str = "gaussian"
) -> list[np.ndarray]:
    r"""Weights of random networks, $\sqrt{2/n_{l-1}}$ times numbers of variance 1.

    Args:
        random: source of randomness.
        widths: $n_0, \dots, n_L$, from the inputs to the last hidden layer.
        draws: number of networks.
        outputs: number of outputs per network.
        law: `"gaussian"`, `"uniform"` or `"laplace"`.

    Returns:
        One array per layer, shape `(draws, n_l, n_{l-1})`.
    """
    sizes = (*checked("draw_weights", widths), whole("draw_weights", "outputs", outputs))
    unit: dict[str, Any] = {
        "gaussian": random.standard_normal,
        "uniform": lambda shape: random.uniform(-math.sqrt(3), math.sqrt(3), shape),
        "laplace": lambda shape: random.laplace(0, math.sqrt(0.5), shape),
    }
    if law not in unit:
        raise ValueError(f"draw_weights: `law` must be one of {', '.join(unit)}, got {law!r}.")
    count = whole("draw_weights", "draws", draws)
    return [math.sqrt(2 / m) * unit[law]((count, n, m)) for m, n in itertools.pairwise(sizes)]


def signals(weights: Sequence[np.ndarray], x: Float[np.ndarray, " inputs"]) -> list[np.ndarray]:
    """Signals of networks in all layers before their gates, the outputs last.

    Args:
        weights: one array per layer, shape `(draws, n_l, n_{l-1})`.
        x: the input.

    Returns:
        One array per layer, shape `(draws, n_l)`.
    """
    found = [weights[0] @ x]
    for layer in weights[1:]:
        found.append((layer @ np.maximum(found[-1], 0)[..., None])[..., 0])
    return found


def add_up_paths(weights: Sequence[np.ndarray], x: Float[np.ndarray, " inputs"]) -> Paths:
    """Output and Jacobian of one small network, summed over its paths one by one.

    Args:
        weights: one array per layer, shape `(n_l, n_{l-1})`.
        x: the input.
    """
    sizes = (weights[0].shape[1], *(len(layer) for layer in weights))
    count = math.prod(sizes)
    if count > MOST_PATHS:
        raise ValueError(
            f"add_up_paths: `weights` has {count:,} paths, and the limit is {MOST_PATHS:,}. Use a smaller network."
        )
    gates = [layer[0] > 0 for layer in signals([layer[None] for layer in weights], x)[:-1]]
    jacobian = np.zeros((sizes[-1], sizes[0]))
    for path in itertools.product(*map(range, sizes)):
        steps = itertools.pairwise(path)
        open_ = all(gate[j] for gate, j in zip(gates, path[1:-1], strict=True))
        if open_:
            jacobian[path[-1], path[0]] += math.prod(W[j, i] for W, (i, j) in zip(weights, steps, strict=True))
    return Paths(count, jacobian @ x, jacobian)


def surrogate_norms(random: np.random.Generator, widths: Sequence[Any], draws: int) -> np.ndarray:
    r"""Samples of the squared lengths of signals behind the gates of Gaussian networks, without drawing a weight.

    In law $|h^{(l)}|^2 = |h^{(l-1)}|^2\,\frac{2}{n_{l-1}}\,\chi^2_B$ with $B$ heads among $n_l$ fair coins. A layer
    needs two random numbers instead of $n_l n_{l-1}$.

    Returns:
        $\frac{n_0}{n_l}\,|h^{(l)}|^2/|x|^2$, with mean 1, shape `(draws, L)`; zero once all gates of a layer are shut.
    """
    hidden = np.array(checked("surrogate_norms", widths)[1:])
    heads = random.binomial(hidden, 0.5, (whole("surrogate_norms", "draws", draws), len(hidden)))
    factors = np.where(heads > 0, 2 * random.standard_gamma(np.maximum(heads, 1) / 2), 0.0)
    return np.cumprod(2 / hidden * factors, axis=1)


def second_moment(widths: Sequence[Any]) -> float:
    r"""The mean square of a derivative, $\mathbb E\,(\partial z/\partial x_p)^2 = 2/n_0$.

    It does not depend on the hidden widths or on the law of the weights.
    """
    return 2 / checked("second_moment", widths)[0]


def signal_moments(
    widths: Sequence[Any], x: Sequence[Any] | np.ndarray | None = None, kurtosis: Real = 3.0
) -> tuple[float, float]:
    r"""The moments $A = \mathbb E\,|h|^4$ and $B = \mathbb E\,\sum_j h_j^4$ in the last hidden layer, exactly.

    The weights may have any symmetric law with fourth moment $\mu_4$. With
    $q = \frac4{n_{l-1}^2}(3A + (\mu_4 - 3)B)$ a layer makes

    $$A' = \frac{n_l}2\,q + \frac{n_l(n_l - 1)}{n_{l-1}^2}A, \qquad B' = \frac{n_l}2\,q .$$

    Args:
        widths: $n_0, \dots, n_L$.
        x: the input; if omitted, $h$ is the derivative of the signals in one input.
        kurtosis: $\mu_4$, at least 1.
    """
    sizes = checked("signal_moments", widths)
    if not kurtosis >= 1:
        raise ValueError(
            f"signal_moments: `kurtosis` must be at least 1, as for every law of variance 1, got {kurtosis!r}."
        )
    entries = np.ones(1) if x is None else np.asarray(x, float)
    A, B = float(np.sum(entries**2) ** 2), float(np.sum(entries**4))
    for m, n in itertools.pairwise(sizes):
        q = 4 / m**2 * (3 * A + (kurtosis - 3) * B)
        A, B = n / 2 * q + n * (n - 1) / m**2 * A, n / 2 * q
    return A, B


def fourth_moment(widths: Sequence[Any], x: Sequence[Any] | np.ndarray | None = None, kurtosis: Real = 3.0) -> float:
    r"""The fourth moment $\mathbb E\,z^4$ of an output, exactly.

    It is one more $q$ of [`signal_moments`][secant.theory.wide.relu_paths.signal_moments]. For Gaussian weights it is
    $\frac{12}{n_0^2}|x|^4\prod_l(1 + \frac5{n_l})$.

    Args:
        widths: $n_0, \dots, n_L$.
        x: the input; if omitted, the result is the fourth moment of the derivative $\partial z/\partial x_p$.
        kurtosis: $\mu_4$, at least 1.
    """
    A, B = signal_moments(widths, x, kurtosis)
    return 4 / widths[-1] ** 2 * (3 * A + (kurtosis - 3) * B)


def aspect(widths: Sequence[Any]) -> float:
    r"""The aspect $\beta = 5\sum_{l=1}^L 1/n_l$; moments of gradients grow as $e^\beta$, or $e^{5L/n}$ at width $n$."""
    return 5 * sum(1 / n for n in checked("aspect", widths)[1:])


def log_norm(widths: Sequence[Any]) -> LogNorm:
    r"""Cumulants of $\log\bigl(\frac{n_0}{n_L}\,|h^{(L)}|^2/|x|^2\bigr)$ over Gaussian weights, exactly.

    The average leaves out networks where a whole layer is shut; a layer is shut with probability $2^{-n}$. Each layer
    adds $\log\frac2n\chi^2_B$ with $B$ heads among $n$ fair coins. As the widths grow the law is normal with mean
    $-\beta/2$ and variance $\beta$, [`aspect`][secant.theory.wide.relu_paths.aspect]; relative corrections are of order
    $1/n$.
    """
    sizes = checked("log_norm", widths)[1:]
    found = {n: _one_layer(n) for n in set(sizes)}
    return LogNorm(*(sum(found[n][order] for n in sizes) for order in range(3)))


def _one_layer(n: int) -> tuple[float, float, float]:
    """Cumulants of the logarithm of one layer's factor, given that the layer is not shut."""
    from scipy import special

    heads = np.arange(1, n + 1)
    chance = np.exp(
        special.gammaln(n + 1) - special.gammaln(heads + 1) - special.gammaln(n - heads + 1) - n * math.log(2)
    )
    chance /= chance.sum()
    first, second, third = (special.polygamma(order, heads / 2) for order in range(3))
    mean = float(chance @ first)
    apart = first - mean
    variance = float(chance @ (second + apart**2))
    return mean + math.log(4 / n), variance, float(chance @ (third + 3 * apart * second + apart**3))
