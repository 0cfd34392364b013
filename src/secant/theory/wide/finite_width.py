r"""Random networks of finite width on one input: the first corrections in one over the width, for any activation.

The network is $z^{(l+1)} = b + W\sigma(z^{(l)})$ with $n_l$ neurons in layer $l$, weights of variance $C_w/n_l$ and
biases of variance $C_b$. Given the layer before, the signals of a layer are Gaussian with a shared variance,

$$\Sigma^{(l+1)} = C_b + \frac{C_w}{n_l}\sum_j\sigma\bigl(z^{(l)}_j\bigr)^2 .$$

At infinite width $\Sigma$ is a number, $K^{(l+1)} = C_b + C_wF(K^{(l)})$ with $F(K) = \mathbb E\,\sigma^2$ over
$N(0, K)$. To first order in $1/n$, $\Sigma$ has a variance $v$, the four-point vertex over the width, and its mean is
off by $g$:

$$v' = \chi_\parallel^2\,v + \frac{C_w^2}{n}\bigl(\mathbb E\,\sigma^4 - F^2\bigr), \qquad
  g' = \chi_\parallel\,g + \tfrac12C_wF''\,v, \qquad \chi_\parallel = C_wF',$$

from $v = g = 0$ in the first layer, which is Gaussian. Derivatives of $F$ are means of Hermite polynomials,
$F' = \mathbb E\,\sigma^2\,(z^2 - K)/2K^2$ and $F'' = \mathbb E\,\sigma^2\,(z^4 - 6Kz^2 + 3K^2)/4K^4$, so activations
may have kinks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from secant.core.arguments import at_least_zero, positive, whole
from secant.core.device import jit
from secant.nets.activations import Function, named

REACH, NODES = 12.0, 480
"""The trapezoidal rule: standard deviations to each side, and number of points, none at a kink in the middle."""


CHUNK = 2**16
"""How many numbers an activation gets at once."""


class Fluctuations(NamedTuple):
    r"""The effect of the width on the signals of random networks, for layers 1 to $L + 1$, the outputs.

    Attributes:
        variance: $K$, the variance of signals at infinite width.
        correction: $g$, the first correction to $\mathbb E\,z^2$.
        spread: $v$, the variance of $\Sigma$: $\mathbb E\,z_1^2z_2^2 - (\mathbb E\,z^2)^2$ for two neurons.
    """

    variance: np.ndarray
    correction: np.ndarray
    spread: np.ndarray

    @property
    def excess(self) -> np.ndarray:
        r"""Excess kurtosis of a signal to first order, $\mathbb E\,z^4/(\mathbb E\,z^2)^2 - 3 = 3v/K^2$."""
        return 3 * self.spread / self.variance**2


def fluctuations(
    activation: str | Function, widths: Sequence[Any], *, weights: Any, biases: Any = 0.0, size: Any = 1.0
) -> Fluctuations:
    r"""First corrections in one over the width to the signals of a random network on one input.

    Args:
        activation: name, or any function of an array.
        widths: $n_1, \dots, n_L$, the widths of the hidden layers.
        weights: $C_w$.
        biases: $C_b$.
        size: mean square of the input's entries, $|x|^2/n_0$.

    Example:
        ```python
        from secant.theory.wide.finite_width import fluctuations

        found = fluctuations("relu", [100] * 4, weights=2.0)
        print(found.variance[-1], round(found.excess[-1], 6))  # 15 times the sum of 1/n
        ```
        ```text
        2.0 0.6
        ```
    """
    caller = "fluctuations"
    if not len(widths):
        raise ValueError(f"{caller}: `widths` must name at least one hidden layer, got {widths!r}.")
    hidden = np.array([whole(caller, "widths", width) for width in widths], float)
    Cw, Cb = positive(caller, "weights", weights), at_least_zero(caller, "biases", biases)
    start = Cb + Cw * positive(caller, "size", size)
    found = _program(named(activation)[1])(1 / hidden, *(jnp.asarray(value, float) for value in (start, Cw, Cb)))
    return Fluctuations(*(np.asarray(part, float) for part in found))


@functools.lru_cache(maxsize=64)
def _program(function: Function) -> Callable[..., tuple[Array, ...]]:
    def layer(state: tuple[Array, Array, Array], narrow: Array, Cw: Array, Cb: Array) -> tuple[Array, Array, Array]:
        K, g, v = state
        mean, slope, bend, fourth = gaussian_means(function, K)
        chi = Cw * slope
        return Cb + Cw * mean, chi * g + Cw * bend * v / 2, chi**2 * v + Cw**2 * narrow * (fourth - mean**2)

    def run(narrow: Array, start: Array, Cw: Array, Cb: Array) -> tuple[Array, ...]:
        def step(state: Any, narrow: Array) -> Any:
            state = layer(state, narrow, Cw, Cb)
            return state, state

        first = (start, jnp.zeros_like(start), jnp.zeros_like(start))
        _, after = jax.lax.scan(step, first, narrow)
        return tuple(jnp.concatenate([a[None], b]) for a, b in zip(first, after, strict=True))

    return jit(run, quick=True)


def gaussian_means(function: Function, K: Array) -> tuple[Array, Array, Array, Array]:
    r"""$F = \mathbb E\,\sigma^2$, $F'$, $F''$ and $\mathbb E\,\sigma^4$ over $z \sim N(0, K)$, at one $K > 0$."""
    nodes = jnp.linspace(-REACH, REACH, NODES, dtype=K.dtype)
    chance = jnp.exp(-(nodes**2) / 2)
    chance = chance / jnp.sum(chance)
    square = function(jnp.sqrt(K) * nodes) ** 2
    hermite = (jnp.ones_like(nodes), (nodes**2 - 1) / (2 * K), (nodes**4 - 6 * nodes**2 + 3) / (4 * K**2))
    first, second, third = (jnp.sum(chance * square * factor) for factor in hermite)
    return first, second, third, jnp.sum(chance * square**2)


@functools.lru_cache(maxsize=64)
def _by_chunks(function: Function) -> Callable[[np.ndarray], np.ndarray]:
    """The same function for arrays of any shape, compiled for one shape only."""
    compiled = jit(function)

    def of(z: np.ndarray) -> np.ndarray:
        flat = np.zeros((-(-z.size // CHUNK), CHUNK), z.dtype)
        flat.ravel()[: z.size] = z.ravel()
        return np.concatenate([np.asarray(compiled(part)) for part in flat])[: z.size].reshape(z.shape)

    return of


def sample_variances(
    random: np.random.Generator,
    activation: str | Function,
    widths: Sequence[Any],
    draws: int,
    *,
    weights: Any,
    biases: Any = 0.0,
    size: Any = 1.0,
) -> np.ndarray:
    r"""Samples of the shared variances $\Sigma$ of the layers of random networks, without drawing a weight.

    Given $\Sigma^{(l)}$, the neurons are independent. A layer needs $n_l$ Gaussians instead of $n_ln_{l-1}$ weights.

    Returns:
        Shape `(L + 1, draws)`, for layers 1 to $L + 1$.
    """
    function = _by_chunks(named(activation)[1])
    count = whole("sample_variances", "draws", draws)
    found = [np.full(count, float(biases) + float(weights) * float(size))]
    for width in widths:
        shape = (count, whole("sample_variances", "widths", width))
        # Rounding is far below the scatter of the draws.
        z = np.sqrt(found[-1], dtype=np.float32)[:, None] * random.standard_normal(shape, np.float32)
        found.append(float(biases) + float(weights) * np.mean(function(z) ** 2, axis=1, dtype=float))
    return np.stack(found)
