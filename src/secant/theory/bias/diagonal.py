r"""Diagonal linear networks: the smallest model that is lazy or learns features, depending on its start.

At depth $L$ the weights are $w = u^L - v^L$, entry by entry. Training starts from $u = v = \alpha$, so that $w = 0$.
Gradient flow on $\frac12\|Xw - y\|^2$ moves every entry along $s = X^\top\nu$ only, with $\dot\nu = y - Xw$:

$$u = \alpha e^{2s},\quad v = \alpha e^{-2s},\quad w = 2\alpha^2\sinh 4s \qquad (L = 2),$$

$$u = \bigl(\alpha^{2-L} - L(L-2)s\bigr)^{-1/(L-2)},\quad
v = \bigl(\alpha^{2-L} + L(L-2)s\bigr)^{-1/(L-2)} \qquad (L > 2).$$

So $n$ unknowns determine the $2d$ parameters. The flow conserves $uv$ for two layers, and $u^{2-L} + v^{2-L}$ for more.
Among all $w$ that fit, the flow ends in the one with the least value of a potential. For $L = 2$ this potential is the
[hypentropy][secant.theory.bias.potentials.hypentropy]: its minimum has the least $\ell_2$ norm for large $\alpha$, and
nearly the least $\ell_1$ norm for small $\alpha$.

For two layers, gradient descent with steps of any size obeys an equally exact law. With $a_t = 2\eta X^\top r_t$, a
step is $u \leftarrow u(1 - a_t)$, $v \leftarrow v(1 + a_t)$. Wherever the run ends, it ends in the least hypentropy
with

$$\alpha^2 \to \alpha^2\prod_t|1 - a_t^2|, \qquad
\text{measured from } \log|u/v| = \sum_t\Bigl[\log\Bigl|\frac{1 - a_t}{1 + a_t}\Bigr| + 2a_t\Bigr]:$$

the first is how much a run gains or loses in each coordinate by not being a flow. The second is odd in $a$ and small.
For stochastic gradients $a_t$ is computed from the batch, and nothing else changes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from secant.core.arguments import whole
from secant.dynamics.map import Map
from secant.theory.bias import potentials
from secant.theory.bias.interpolants import bregman_projection


def weights(s: Any, alpha: Any, depth: int = 2) -> np.ndarray:
    r"""Weights $w$ of the flow at $s = X^\top\nu$; infinite where the flow has no such point.

    Args:
        s: any shape.
        alpha: the start $\alpha$, above 0; broadcasts.
        depth: $L$, at least 2.
    """
    u, v = parameters(s, alpha, depth)
    return np.asarray(u**depth - v**depth)


def parameters(s: Any, alpha: Any, depth: int = 2) -> tuple[np.ndarray, np.ndarray]:
    r"""$u$ and $v$ of the flow at $s = X^\top\nu$."""
    s, alpha, depth = np.asarray(s, float), _starts("parameters", alpha), whole("parameters", "depth", depth, 2)
    if depth == 2:
        return np.asarray(alpha * np.exp(2 * s)), np.asarray(alpha * np.exp(-2 * s))
    base, slope = alpha ** (2.0 - depth), depth * (depth - 2) * s
    with np.errstate(divide="ignore"):
        u, v = (np.maximum(base + sign * slope, 0.0) ** (-1 / (depth - 2)) for sign in (-1, 1))
    return np.asarray(u), np.asarray(v)


def conserved(u: Any, v: Any, depth: int = 2) -> np.ndarray:
    r"""The numbers that gradient flow keeps: $uv$ for two layers, $u^{2-L} + v^{2-L}$ for more, entry by entry."""
    u, v = np.asarray(u, float), np.asarray(v, float)
    kept = u * v if whole("conserved", "depth", depth, 2) == 2 else u ** (2.0 - depth) + v ** (2.0 - depth)
    return np.asarray(kept)


def potential(alpha: Any, depth: int = 2) -> potentials.Potential:
    r"""The potential that gradient flow minimises, by its gradient $w \mapsto s$ and the inverse.

    For more than two layers the gradient is found by bisection.

    Args:
        alpha: the start, a number or one per coordinate.
        depth: $L$.
    """
    depth = whole("potential", "depth", depth, 2)
    if depth == 2:
        return potentials.hypentropy(alpha)
    alpha = _starts("potential", alpha)
    edge = alpha ** (2.0 - depth) / (depth * (depth - 2))

    def inverse(s: np.ndarray) -> np.ndarray:
        return weights(s, alpha, depth)

    def slope(s: np.ndarray, v: np.ndarray) -> np.ndarray:
        one, other = parameters(s, alpha, depth)
        return depth**2 * (one ** (2 * depth - 2) + other ** (2 * depth - 2)) * v

    def gradient(w: np.ndarray) -> np.ndarray:
        w, top = np.broadcast_arrays(np.asarray(w, float), edge)
        low, high = np.zeros(w.shape), top.copy()
        for _ in range(100):  # w is odd and grows in s: halve the interval down to rounding
            middle = (low + high) / 2
            beyond = weights(middle, alpha, depth) > np.abs(w)
            low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
        return np.sign(w) * (low + high) / 2

    def value(w: np.ndarray) -> np.ndarray:
        # By Legendre: R(w) = w s - R*(s), and R* is an antiderivative of u^L - v^L.
        s = gradient(w)
        one, other = parameters(s, alpha, depth)
        return np.asarray((np.asarray(w) * s - (one**2 + other**2 - 2 * alpha**2) / (2 * depth)).sum(-1))

    return potentials.Potential(f"diagonal network of depth {depth}", value, gradient, inverse, slope)


def limit(X: Any, y: Any, alpha: Any, depth: int = 2) -> np.ndarray:
    r"""Where gradient flow from $u = v = \alpha$ ends, without running it: the least potential with $Xw = y$.

    Args:
        X: data, shape `(n, d)`.
        y: targets, shape `(n,)`.
        alpha: the start, a number or one per coordinate.
        depth: $L$.

    Example:
        ```python
        import numpy as np
        from secant.theory.bias import diagonal

        X, y = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 0.0]]), np.array([1.0, 3.0])
        print(diagonal.limit(X, y, 10.0).round(4), diagonal.limit(X, y, 1e-6).round(4))
        ```
        ```text
        [ 0.3333  1.3333 -0.6667] [ 0.   1.5 -0.5]
        ```
    """
    return bregman_projection(X, y, potential(alpha, depth)).weights


class Descent(NamedTuple):
    r"""A run of gradient descent on a diagonal network of two layers, and what its law needs.

    Attributes:
        u: parameters, shape `(..., d)`.
        v: parameters of the other sign.
        log_gain: $\sum_t\log|1 - a_t^2|$, by which $\log\alpha^2$ has grown, shape `(..., d)`.
        shift: $\sum_t[\log|(1-a_t)/(1+a_t)| + 2a_t]$, shape `(..., d)`.
    """

    u: Any
    v: Any
    log_gain: Any
    shift: Any

    @property
    def w(self) -> Any:
        """The weights."""
        return self.u**2 - self.v**2


def begin(alpha: Any, shape: tuple[int, ...]) -> Descent:
    r"""The start $u = v = \alpha$, on the host; shape `(..., d)`."""
    start = np.broadcast_to(_starts("begin", alpha), shape)
    return Descent(start.copy(), start.copy(), np.zeros(shape), np.zeros(shape))


def step(run: Descent, X: Any, y: Any, lr: Any, xp: Any = np) -> Descent:
    r"""The run after one more step of gradient descent on $\frac12\|Xw - y\|^2$.

    Args:
        run: the run so far.
        X: data, shape `(n, d)`, or `(..., b, d)` if every run has a batch of its own.
        y: targets, shape `(n,)` or `(..., b)`.
        lr: $\eta$, one number or one per run, shape `(..., 1)`.
        xp: the module of arrays, `numpy` or `jax.numpy`.
    """
    r = xp.einsum("...nd,...d->...n", X, run.w) - y
    a = 2 * lr * xp.einsum("...nd,...n->...d", X, r)
    log_minus, log_plus = (xp.log(xp.abs(1 + sign * a)) for sign in (-1, 1))
    return Descent(
        run.u * (1 - a), run.v * (1 + a), run.log_gain + log_minus + log_plus, run.shift + log_minus - log_plus + 2 * a
    )


def descent(X: Any, y: Any, lr: Any, alpha: Any) -> Map:
    """Gradient descent as a [`Map`][secant.dynamics.Map], for [`simulate`][secant.dynamics.simulate] on any device.

    Args:
        X: data, shape `(n, d)`.
        y: targets, shape `(n,)`.
        lr: the step size.
        alpha: the start.
    """
    import jax.numpy as jnp

    X, y = jnp.asarray(X), jnp.asarray(y)

    def init(_: Any = None) -> Descent:
        start = jnp.full(X.shape[1], alpha, X.dtype)
        return Descent(start, start, jnp.zeros_like(start), jnp.zeros_like(start))

    return Map(init, lambda run: step(run, X, y, lr, jnp))


def law(run: Descent, X: Any, y: Any, alpha: Any) -> np.ndarray:
    r"""The weights that a run must reach if it fits, from its gains alone: the least hypentropy of the law above.

    Args:
        run: a run; leading axes are runs.
        X: data, shape `(n, d)`.
        y: targets, shape `(n,)`.
        alpha: the start of the run.

    Returns:
        Weights, shape `(..., d)`.

    Example:
        ```python
        import numpy as np
        from secant.theory.bias import diagonal

        X, y = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 0.0]]), np.array([1.0, 3.0])
        run = diagonal.begin(0.1, (3,))
        for _ in range(3000):
            run = diagonal.step(run, X, y, 0.05)
        flow, end = diagonal.limit(X, y, 0.1), diagonal.law(run, X, y, 0.1)
        print(abs(run.w - flow).max() > 1e-3, abs(run.w - end).max() < 1e-10)
        ```
        ```text
        True True
        ```
    """
    gain, shift = np.asarray(run.log_gain, float), np.asarray(run.shift, float)
    effective = _starts("law", alpha) * np.exp(gain / 2)
    return bregman_projection(X, y, potentials.hypentropy(effective), start=2 * effective**2 * np.sinh(shift)).weights


def _starts(caller: str, alpha: Any) -> np.ndarray:
    alpha = np.asarray(alpha, float)
    if not (np.isfinite(alpha) & (alpha > 0)).all():
        raise ValueError(f"{caller}: `alpha` must be finite and above 0, got {alpha!r}.")
    return alpha
