r"""How large the gradient of a random ReLU network is.

A fully connected network with $L$ layers of weights $w \sim \mathcal N(0, 1)$, each sum divided by the root of its
number of terms, on an input $x \sim \mathcal N(0, I)$. Its gate is open along a path with probability $2^{-(L-1)}$
whatever the widths, which gives the mean square of the gradient exactly; the mean of its norm depends on the widths.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from secant.core.types import Real


def mean_square_gradient(depth: Real) -> Float[Array, "..."]:
    r"""$\mathbb E \|\nabla_w f\|^2 = L\, 2^{-(L-1)}$: every layer has the share $2^{-(L-1)}$, at every width.

    Args:
        depth: $L$, layers of weights.
    """
    depth = jnp.asarray(depth)
    return depth * 2.0 ** (1 - depth)


def chain_fourth_moment(depth: Real) -> Float[Array, "..."]:
    r"""$\mathbb E \|\nabla_w f\|^4$ of the narrowest network, one neuron a layer and one input.

    There $\|\nabla_w f\|^2 = x^2 \sum_l \prod_{k \ne l} w_k^2$ while all gates are open, and
    $\mathbb E w^4 = 3$ gives $2^{-(L-1)} \cdot 3\, \big(L\, 3^{L-1} + L (L - 1)\, 3^{L-2}\big)$.

    Args:
        depth: $L$, layers of weights.
    """
    depth = jnp.asarray(depth)
    return 2.0 ** (1 - depth) * 3 * (depth * 3.0 ** (depth - 1) + depth * (depth - 1) * 3.0 ** (depth - 2))


def chain_last_gradient(depth: Real) -> Float[Array, "..."]:
    r"""$\mathbb E |\partial f / \partial w^{(L)}|$ of the narrowest network, $2^{-(L-1)} (2/\pi)^{L/2}$.

    It is the value of the last hidden neuron: $|x|$ times $L - 1$ weights, each with the mean size $\sqrt{2/\pi}$,
    behind $L - 1$ gates.

    Args:
        depth: $L$, layers of weights.
    """
    depth = jnp.asarray(depth)
    return 2.0 ** (1 - depth) * (2 / jnp.pi) ** (depth / 2)


def mean_from_moments(second: Real, fourth: Real) -> Float[Array, "..."]:
    r"""A lower bound on the mean of $X \ge 0$, $\mathbb E X \ge (\mathbb E X^2)^{3/2} (\mathbb E X^4)^{-1/2}$.

    By Hölder's inequality on $X^2 = X^{2/3} X^{4/3}$. The second moment alone bounds the mean from above only.
    """
    return jnp.asarray(second) ** 1.5 / jnp.sqrt(jnp.asarray(fourth))


def chain_gradient(x: Float[Array, " n"], w: Float[Array, "n depth"]) -> Float[Array, "n depth"]:
    r"""Sizes of $\partial f/\partial w_l$ in networks of one neuron a layer, $f = x \prod_l w_l$ behind the gates.

    Args:
        x: inputs, one a network.
        w: weights, from the first layer to the last; all but those of the last stand before a gate.
    """
    on = (x * w[:, 0] > 0) & jnp.all(w[:, 1:-1] > 0, axis=1)
    product = jnp.abs(x) * jnp.prod(jnp.abs(w), axis=1)
    return jnp.where(on[:, None], product[:, None] / jnp.abs(w), 0.0)


def alignment_with_identity(dim: int, samples: int) -> float:
    r"""Of $G = \frac1n\sum_a g_a g_a^\top$, the gradients in the input of a wide two-layer network: $\cos(G, I)$.

    By its mean square, $\mathbb E\,(g_a^\top g_a)^2 = \frac14(d^2 + 2d)$ and, with the covariance
    $k = \frac14 + \frac{\cos\theta}{2\pi}$ of gradients at inputs at an angle $\theta$ near $\frac\pi2$,
    $\mathbb E\,(g_a^\top g_b)^2 = d^2\,\mathbb E\,k^2 + d(\frac14 + \frac1{16})$, where
    $\mathbb E\,k^2 = \frac1{16} + \frac1{4\pi^2 d}$.

    Args:
        dim: $d$, entries of an input.
        samples: $n$, inputs.
    """
    same = (dim**2 + 2 * dim) / 4
    apart = dim**2 / 16 + dim / (4 * math.pi**2) + dim * (1 / 4 + 1 / 16)
    return dim / 2 / math.sqrt(dim * (same / samples + (1 - 1 / samples) * apart))
