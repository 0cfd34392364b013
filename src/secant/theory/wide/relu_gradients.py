r"""The size of the gradient of a random ReLU network at initialisation.

The network is fully connected with $L$ layers of weights $w \sim \mathcal N(0, 1)$. Each sum is divided by the root of
its number of terms, and the input is $x \sim \mathcal N(0, I)$. All gates along a path are open with probability
$2^{-(L-1)}$ whatever the widths. This gives the mean square of the gradient exactly; the mean of its norm depends on
the widths.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from secant.core.types import Real


def mean_square_gradient(depth: Real) -> Float[Array, "..."]:
    r"""The mean square of the gradient, $\mathbb E \|\nabla_w f\|^2 = L\, 2^{-(L-1)}$.

    Every layer has the share $2^{-(L-1)}$, at every width.

    Args:
        depth: $L$, layers of weights.
    """
    depth = jnp.asarray(depth)
    return depth * 2.0 ** (1 - depth)


def chain_fourth_moment(depth: Real) -> Float[Array, "..."]:
    r"""The fourth moment $\mathbb E \|\nabla_w f\|^4$ of the narrowest network, one neuron per layer and one input.

    If all gates are open, $\|\nabla_w f\|^2 = x^2 \sum_l \prod_{k \ne l} w_k^2$, and
    $\mathbb E w^4 = 3$ gives $2^{-(L-1)} \cdot 3\, \big(L\, 3^{L-1} + L (L - 1)\, 3^{L-2}\big)$.

    Args:
        depth: $L$, layers of weights.
    """
    depth = jnp.asarray(depth)
    return 2.0 ** (1 - depth) * 3 * (depth * 3.0 ** (depth - 1) + depth * (depth - 1) * 3.0 ** (depth - 2))


def chain_last_gradient(depth: Real) -> Float[Array, "..."]:
    r"""The mean $\mathbb E |\partial f / \partial w^{(L)}| = 2^{-(L-1)} (2/\pi)^{L/2}$ of the narrowest network.

    The derivative is the value of the last hidden neuron: $|x|$ times $L - 1$ weights, each with the mean size
    $\sqrt{2/\pi}$, behind $L - 1$ gates.

    Args:
        depth: $L$, layers of weights.
    """
    depth = jnp.asarray(depth)
    return 2.0 ** (1 - depth) * (2 / jnp.pi) ** (depth / 2)


def mean_from_moments(second: Real, fourth: Real) -> Float[Array, "..."]:
    r"""A lower bound on the mean of $X \ge 0$, $\mathbb E X \ge (\mathbb E X^2)^{3/2} (\mathbb E X^4)^{-1/2}$.

    It is Hölder's inequality for $X^2 = X^{2/3} X^{4/3}$. The second moment alone bounds the mean from above only.
    """
    return jnp.asarray(second) ** 1.5 / jnp.sqrt(jnp.asarray(fourth))


def chain_gradient(x: Float[Array, " n"], w: Float[Array, "n depth"]) -> Float[Array, "n depth"]:
    r"""Sizes of $\partial f/\partial w_l$ in networks of one neuron per layer, $f = x \prod_l w_l$ behind the gates.

    Args:
        x: inputs, one per network.
        w: weights, from the first layer to the last; a gate follows every layer but the last.
    """
    on = (x * w[:, 0] > 0) & jnp.all(w[:, 1:-1] > 0, axis=1)
    product = jnp.abs(x) * jnp.prod(jnp.abs(w), axis=1)
    return jnp.where(on[:, None], product[:, None] / jnp.abs(w), 0.0)


def alignment_with_identity(dim: int, samples: int) -> float:
    r"""The cosine between $G = \frac1n\sum_a g_a g_a^\top$ and the identity, for a wide two-layer network.

    The $g_a$ are gradients in the inputs. The mean square of $G$ follows from
    $\mathbb E\,(g_a^\top g_a)^2 = \frac14(d^2 + 2d)$ and
    $\mathbb E\,(g_a^\top g_b)^2 = d^2\,\mathbb E\,k^2 + d(\frac14 + \frac1{16})$. Here
    $k = \frac14 + \frac{\cos\theta}{2\pi}$ is the covariance of gradients at inputs at an angle $\theta$ near
    $\frac\pi2$, and $\mathbb E\,k^2 = \frac1{16} + \frac1{4\pi^2 d}$.

    Args:
        dim: $d$, entries of an input.
        samples: $n$, inputs.
    """
    same = (dim**2 + 2 * dim) / 4
    apart = dim**2 / 16 + dim / (4 * math.pi**2) + dim * (1 / 4 + 1 / 16)
    return dim / 2 / math.sqrt(dim * (same / samples + (1 - 1 / samples) * apart))
