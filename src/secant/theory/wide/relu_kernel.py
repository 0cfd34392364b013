r"""Tangent kernels of random ReLU networks of finite width.

The network has one output and $L + 1$ layers $W^{(l)} = \sqrt{2/n_{l-1}}\,\hat W^{(l)}$, and derivatives are in
$\hat W$. The kernel of an input with itself is

$$\Theta = \sum_{k=1}^{L+1} \frac2{n_{k-1}}\,|h^{(k-1)}|^2\,\Bigl|\frac{\partial z}{\partial z^{(k)}}\Bigr|^2 .$$

Every layer has the mean $2|x|^2/n_0$ at every width. The mean square grows as $e^{5L/n}$: at a fixed ratio of depth to
width the kernel stays random, however wide the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from secant.core.arguments import positive
from secant.core.types import Real
from secant.theory.wide.relu_paths import checked


def layer_kernels(weights: Sequence[np.ndarray], X: Float[np.ndarray, "samples inputs"]) -> np.ndarray:
    """Tangent kernels of networks at several inputs, split into the shares of their layers.

    Args:
        weights: one array per layer, shape `(draws, n_l, n_{l-1})`; the last layer has one output.
        X: inputs, one per row.

    Returns:
        Shape `(draws, L + 1, samples, samples)`; the sum over the layers is the kernel.
    """
    below = [np.broadcast_to(X.T, (len(weights[0]), *X.T.shape))]
    for layer in weights[:-1]:
        below.append(np.maximum(layer @ below[-1], 0))
    back = np.ones((len(weights[0]), len(X), 1))
    shares = []
    for k in range(len(weights) - 1, -1, -1):
        h = below[k]
        shares.append(2 / h.shape[1] * (h.transpose(0, 2, 1) @ h) * (back @ back.transpose(0, 2, 1)))
        if k:
            back = (back @ weights[k]) * (h.transpose(0, 2, 1) > 0)
    return np.stack(shares[::-1], axis=1)


def kernel_draws(weights: Sequence[np.ndarray], x: Float[np.ndarray, " inputs"]) -> np.ndarray:
    """Tangent kernels of networks for one input with itself, split into the shares of their layers.

    Args:
        weights: one array per layer, shape `(draws, n_l, n_{l-1})`; the last layer has one output.
        x: the input.

    Returns:
        Shape `(draws, L + 1)`; the sum over the layers is the kernel.
    """
    return layer_kernels(weights, x[None])[:, :, 0, 0]


def kernel_mean(widths: Sequence[Any], norm: Real = 1.0) -> Any:
    r"""The mean kernel of an input with itself, $\mathbb E\,\Theta = 2(L + 1)|x|^2/n_0$, at every width.

    Args:
        widths: $n_0, \dots, n_L$.
        norm: $|x|$.
    """
    sizes = checked("kernel_mean", widths)
    return 2 * len(sizes) * np.asarray(norm) ** 2 / sizes[0]


def kernel_square(widths: Sequence[Any], norm: Real = 1.0) -> Any:
    r"""The mean square $\mathbb E\,\Theta^2$ of the kernel over Gaussian weights, exactly.

    $$\mathbb E\,\Theta^2 = \frac{4|x|^4}{n_0^2}\left\{(L + 1)\prod_{l=1}^L g_l
      + 2\sum_{k<k'}\prod_{l<k} g_l\;\rho_{kk'}\prod_{l\ge k'} g_l\right\}, \qquad g_l = 1 + \frac5{n_l},$$

    where $\rho_{kk'} = 4a/n_{k'-1}^2$. Here $R$ is the masked product of the layers between $k$ and $k'$, with
    $a = \mathbb E\,|R|_F^4$ and $b = \mathbb E\,\mathrm{tr}\,(RR^\top)^2$. They start at layer $k$ from
    $a = n_k(n_k + 1)/4$, $b = n_k/2$, and each layer makes $a' = u(a + 2b) + wa$ and $b' = u(a + 2b) + wb$ with
    $u = 2n_j/n_{j-1}^2$ and $w = n_j(n_j - 1)/n_{j-1}^2$.

    Args:
        widths: $n_0, \dots, n_L$.
        norm: $|x|$.
    """
    sizes = checked("kernel_square", widths)
    hidden = np.array(sizes[1:], float)
    growth = np.concatenate([[1.0], np.cumprod(1 + 5 / hidden)])  # of the first layers together
    apart, a, b = 0.0, np.zeros(0), np.zeros(0)
    for j, n in enumerate(hidden):  # pairs whose upper layer stands on hidden layer j, one for every lower layer
        if j:
            u, w = 2 * n / hidden[j - 1] ** 2, n * (n - 1) / hidden[j - 1] ** 2
            a, b = u * (a + 2 * b) + w * a, u * (a + 2 * b) + w * b
        a, b = np.append(a, n * (n + 1) / 4), np.append(b, n / 2)
        apart += float(growth[: j + 1] @ (4 * a / n**2)) * growth[-1] / growth[j + 1]
    return 4 * np.asarray(norm) ** 4 / sizes[0] ** 2 * (len(sizes) * growth[-1] + 2 * apart)


def kernel_spread(ratio: Real) -> Any:
    r"""The spread $\mathbb E\,\Theta^2/(\mathbb E\,\Theta)^2$ of deep and wide networks of equal widths, at $T = L/n$.

    $$\frac{e^{5T}}3\Bigl[1 + \frac2{3T} - \frac{1 - e^{-6T}}{9T^2}\Bigr] = 1 + \tfrac{11}3T + \dots$$

    Args:
        ratio: $T$, above 0.
    """
    T = np.asarray(ratio, float)
    for value in T.ravel():
        positive("kernel_spread", "ratio", value)
    # Below 1e-3 the bracket is a difference of large numbers, so use its series 3 - 4T + 6T^2 - 36T^3/5, up to 1e-12.
    series = 3 - 4 * T + 6 * T**2 - 7.2 * T**3
    safe = np.maximum(T, 1e-3)
    bracket = np.where(T < 1e-3, series, 1 + 2 / (3 * safe) + np.expm1(-6 * safe) / (9 * safe**2))
    return np.exp(5 * T) / 3 * bracket
