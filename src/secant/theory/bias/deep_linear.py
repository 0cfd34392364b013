r"""Deep linear networks by their singular values: depth learns the large values first.

Gradient flow on a loss of the product $W = W_L\cdots W_1$ keeps the differences
$W_{l+1}^\top W_{l+1} - W_lW_l^\top$. If they vanish, the network is **balanced**, and the product obeys a closed
equation,

$$\dot W = -\sum_{l=1}^L(WW^\top)^{(L-l)/L}\,\nabla L(W)\,(W^\top W)^{(l-1)/L}.$$

On $\frac12\|W - M\|^2$, started along the singular vectors of $M$, every singular value moves independently,

$$\dot s = L\,s^{2-2/L}(\sigma - s).$$

For $L = 1$ all values move at one rate. For $L \ge 2$ each value first waits. The smaller the value the longer the
wait, and more so in deeper networks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from secant.core.arguments import positive, whole


def imbalance(layers: Sequence[Any]) -> list[np.ndarray]:
    r"""The imbalance of neighbouring layers, $W_{l+1}^\top W_{l+1} - W_lW_l^\top$, which gradient flow keeps.

    Args:
        layers: $W_1, \dots, W_L$, where $W_1$ reads the inputs.
    """
    layers = [np.asarray(layer, float) for layer in layers]
    for number, (one, two) in enumerate(itertools.pairwise(layers), 1):
        if two.shape[1] != one.shape[0]:
            raise ValueError(
                f"imbalance: layer {number + 1} reads {two.shape[1]} numbers, layer {number} gives {one.shape[0]}. "
                "Give `layers` from the inputs to the outputs."
            )
    return [two.T @ two - one @ one.T for one, two in itertools.pairwise(layers)]


def balanced(W: Any, depth: int) -> list[np.ndarray]:
    r"""Balanced layers with a given product: $W_1 = S^{1/L}V^\top$, $W_L = US^{1/L}$, between them $S^{1/L}$.

    Args:
        W: the product $USV^\top$, shape `(m, k)`.
        depth: $L$, at least 1.
    """
    depth = whole("balanced", "depth", depth)
    left, values, right = np.linalg.svd(np.asarray(W, float), full_matrices=False)
    if depth == 1:
        return [np.asarray(W, float)]
    root = values ** (1 / depth)
    return [root[:, None] * right, *[np.diag(root)] * (depth - 2), left * root]


def product_rate(W: Any, gradient: Any, depth: int) -> np.ndarray:
    r"""The rate $\dot W$ of a balanced network's product, from the gradient of the loss in $W$."""
    depth = whole("product_rate", "depth", depth)
    left, values, right = np.linalg.svd(np.asarray(W, float), full_matrices=True)
    gradient = np.asarray(gradient, float)
    wide, tall = (np.zeros(len(side)) for side in (left, right))
    wide[: len(values)] = tall[: len(values)] = values
    inner = left.T @ gradient @ right.T
    # In these bases the powers are numbers. Zero to the power of zero is one: that factor is absent.
    total = sum(wide[:, None] ** (2 * (depth - k) / depth) * tall ** (2 * (k - 1) / depth) for k in range(1, depth + 1))
    return np.asarray(-left @ (total * inner) @ right)


def mode_rate(s: Any, sigma: Any, depth: int) -> np.ndarray:
    r"""The rate of one singular value, $\dot s = L\,s^{2-2/L}(\sigma - s)$."""
    s, depth = np.asarray(s, float), whole("mode_rate", "depth", depth)
    return np.asarray(depth * s ** (2 - 2 / depth) * (np.asarray(sigma, float) - s))


def time_to(s: Any, sigma: float, start: float, depth: int) -> np.ndarray:
    r"""The time that a singular value takes from `start` to `s`, below its end $\sigma$.

    $$t = \int_{s_0}^s\frac{dx}{L\,x^{2-2/L}(\sigma - x)}$$

    has a closed form for one layer, $\log\frac{\sigma - s_0}{\sigma - s}$, and for two,
    $\frac1{2\sigma}\log\frac{s(\sigma - s_0)}{s_0(\sigma - s)}$. For more layers the function substitutes $x = e^z$ and
    uses Gauss-Legendre quadrature.

    Args:
        s: between `start` and `sigma`, any shape.
        sigma: $\sigma$, above 0.
        start: $s_0$, above 0 and below `sigma`.
        depth: $L$.

    Example:
        ```python
        from secant.theory.bias import deep_linear

        # A value half as large takes as long in one layer, and nearly twice as long in more.
        for depth in (1, 2, 3):
            large, small = (deep_linear.time_to(sigma / 2, sigma, 1e-4, depth) for sigma in (1.0, 0.5))
            print(depth, round(float(small / large), 2))
        ```
        ```text
        1 1.0
        2 1.85
        3 1.98
        ```
    """
    depth = whole("time_to", "depth", depth)
    sigma, start = positive("time_to", "sigma", sigma), positive("time_to", "start", start)
    s = np.asarray(s, float)
    if not (start < sigma and (s >= start).all() and (s < sigma).all()):
        raise ValueError(f"time_to: `s` must lie between `start`, {start!r}, and `sigma`, {sigma!r}, got {s!r}.")
    if depth == 1:
        return np.asarray(np.log((sigma - start) / (sigma - s)))
    if depth == 2:
        return np.asarray(np.log(s * (sigma - start) / (start * (sigma - s))) / (2 * sigma))
    # With z = log(x / (sigma - x)), dx = x (sigma - x) / sigma dz: the integrand is a power, smooth on the whole line.
    low, high = np.log(start / (sigma - start)), np.log(s / (sigma - s))
    nodes, weights = np.polynomial.legendre.leggauss(64)
    parts = 16
    edges = low + (high - low)[..., None] * np.linspace(0, 1, parts + 1)
    half = (edges[..., 1:] - edges[..., :-1])[..., None] / 2
    z = (edges[..., :-1] + edges[..., 1:])[..., None] / 2 + half * nodes
    x = sigma / (1 + np.exp(-z))
    return np.asarray((half * weights * x ** (2 / depth - 1)).sum((-1, -2)) / (depth * sigma))
