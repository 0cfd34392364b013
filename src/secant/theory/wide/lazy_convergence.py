r"""Why wide networks reach zero loss: weights that hardly move keep the kernel, and the kernel keeps the weights.

A two-layer network $z_i = n^{-1/2}\sum_k a_k\,\sigma(w_k\cdot x_i)$ with $|\sigma'|, |\sigma''| \le 1$, $|x_i| = 1$ and
frozen $|a_k| \le 1$ follows the gradient flow $\dot w = -\eta\nabla\mathcal L$ of $\mathcal L = \frac1{2m}|z - y|^2$ on
$m$ samples, with the kernel

$$K_{ij} = \frac1n\sum_k a_k^2\,(x_i\cdot x_j)\,\sigma'(w_k\cdot x_i)\,\sigma'(w_k\cdot x_j), \qquad
  \lambda_0 = \lambda_{\min}(K(0)).$$

While no $w_k$ has moved by more than $\Delta$, $\|K - K(0)\| \le 2m\Delta$. While $K \ge \lambda_0/2$, the loss is at
most $e^{-\eta\lambda_0t/m}$ times its start, and so no $w_k$ moves by more than
$\Delta_* = 2\sqrt2\,m\sqrt{\mathcal L(0)}/(\lambda_0\sqrt n)$. If the kernel tolerates a motion of $\Delta_*$, both
statements hold for ever. This is so above some width, where every run converges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from secant.core.arguments import share
from secant.core.types import Real


class Monitors(NamedTuple):
    r"""The quantities that the proof of convergence follows, at one time.

    Attributes:
        loss: $\mathcal L$.
        motion: $\max_k|w_k - w_k(0)|$.
        change: $\|K - K(0)\|$, the largest singular value.
        smallest: $\lambda_{\min}(K)$.
    """

    loss: Array
    motion: Array
    change: Array
    smallest: Array


def hidden_kernel(
    w: Float[Array, "n d"],
    a: Float[Array, " n"],
    X: Float[Array, "m d"],
    activation: Callable[[Array], Array] = jnp.tanh,
    width: Real | None = None,
) -> Float[Array, "m m"]:
    """The tangent kernel of the hidden weights.

    Args:
        w: hidden weights, one neuron per row.
        a: frozen weights of the output; a neuron with weight zero is absent.
        X: inputs, one per row.
        activation: any function of an array, entry by entry.
        width: number of neurons, by default the number of rows.
    """
    slopes = a[:, None] * jax.jvp(activation, (w @ X.T,), (jnp.ones((len(w), len(X))),))[1]
    return X @ X.T * (slopes.T @ slopes) / (len(w) if width is None else width)


def kernel_change_bound(samples: Real, motion: Real) -> Any:
    r"""The largest change of the kernel, $2m\Delta \ge \|K - K(0)\|$, while no neuron has moved by more than $\Delta$.

    Args:
        samples: $m$.
        motion: $\Delta$.
    """
    return 2 * samples * motion


def allowed_motion(smallest: Real, samples: Real, kept: Real = 0.75) -> Any:
    r"""How far neurons may move while $K \ge c\lambda_0$: $\Delta = (1 - c)\lambda_0/(2m)$.

    Args:
        smallest: $\lambda_0$.
        samples: $m$.
        kept: $c$, between 0 and 1.
    """
    return (1 - share("allowed_motion", "kept", kept)) * smallest / (2 * samples)


def loss_bound(loss: Real, smallest: Real, samples: Real, time: Real, lr: Real = 1.0) -> Any:
    r"""A bound on the loss, $e^{-\eta\lambda_0t/m}\mathcal L(0) \ge \mathcal L(t)$, while $K \ge \lambda_0/2$.

    Args:
        loss: $\mathcal L(0)$.
        smallest: $\lambda_0$.
        samples: $m$.
        time: $t$.
        lr: $\eta$.
    """
    return loss * jnp.exp(-lr * smallest * time / samples)


def motion_bound(loss: Real, smallest: Real, samples: Real, width: Real) -> Any:
    r"""The farthest that any neuron moves, $\Delta_* = 2\sqrt2\,m\sqrt{\mathcal L(0)}/(\lambda_0\sqrt n)$.

    It bounds $|w_k(t) - w_k(0)|$ while $K \ge \lambda_0/2$.

    Args:
        loss: $\mathcal L(0)$.
        smallest: $\lambda_0$.
        samples: $m$.
        width: $n$.
    """
    return 2 * jnp.sqrt(2) * samples * jnp.sqrt(loss) / (smallest * jnp.sqrt(width))


def enough_width(loss: Real, smallest: Real, samples: Real) -> Any:
    r"""A width that guarantees zero loss in the end, $n = 512\,m^4\mathcal L(0)/\lambda_0^4$.

    From this width on $\Delta_* \le \lambda_0/(8m)$, so $K \ge \frac34\lambda_0$ at all times. In practice far smaller
    widths suffice.

    Args:
        loss: $\mathcal L(0)$.
        smallest: $\lambda_0$.
        samples: $m$.
    """
    return 512 * samples**4 * loss / smallest**4


def first_exit(times: Float[np.ndarray, " t"], values: Float[np.ndarray, " t"], bound: float, above: bool) -> float:
    """The first time at which a monitor is beyond a bound, infinite if there is none.

    Args:
        times: ascending.
        values: of the monitor.
        bound: the bound that the monitor should respect.
        above: true if the monitor should stay above the bound, false if below.
    """
    beyond = values < bound if above else values > bound
    return float(times[int(np.argmax(beyond))]) if beyond.any() else float("inf")


def observe(
    w: Float[Array, "n d"],
    start: Float[Array, "n d"],
    a: Float[Array, " n"],
    X: Float[Array, "m d"],
    y: Float[Array, " m"],
    activation: Callable[[Array], Array] = jnp.tanh,
    width: Real | None = None,
) -> Monitors:
    """All monitors of a network.

    Args:
        w: hidden weights now.
        start: hidden weights at the start.
        a: frozen weights of the output.
        X: inputs.
        y: labels.
        activation: any function of an array, entry by entry.
        width: number of neurons, by default the number of rows.
    """
    count = len(w) if width is None else width
    z = activation(X @ w.T) @ a / jnp.sqrt(count)
    now, then = (hidden_kernel(weights, a, X, activation, count) for weights in (w, start))
    return Monitors(
        jnp.sum((z - y) ** 2) / (2 * len(y)),
        jnp.max(jnp.linalg.norm(w - start, axis=1)),
        jnp.max(jnp.abs(jnp.linalg.eigvalsh(now - then))),
        jnp.linalg.eigvalsh(now)[0],
    )
