r"""Potentials of mirror descent: convex functions, their gradients and the inverses of these.

Mirror descent with a potential $R$ moves the gradient of $R$ along the gradient of the loss, $\nabla R(w_{t+1}) =
\nabla R(w_t) - \eta\nabla L(w_t)$. The potential measures the distance of $w$ from $w'$ by the Bregman divergence
$D_R(w, w') = R(w) - R(w') - \langle\nabla R(w'), w - w'\rangle$. Among all weights that fit linear data, the method
ends in the weights of least $D_R(w, w_0)$: [`bregman_projection`][secant.theory.bias.interpolants.bregman_projection].

The functions take NumPy arrays, in float64, or JAX arrays, and return the same kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from secant.core.arguments import is_traced
from secant.core.types import Real


@dataclass(frozen=True)
class Potential:
    r"""A convex function $R$ of weights, over the last axis of an array or, for matrices, over the last two.

    Attributes:
        name: the name of the potential.
        value: $w \mapsto R(w)$, one number for each of the leading axes.
        gradient: $w \mapsto \nabla R(w)$, the weights' dual.
        inverse: the inverse of the gradient, $z \mapsto \nabla R^*(z)$.
        slope: the derivative of the inverse, $z, v \mapsto \nabla^2R^*(z)\,v$.
        inside: whether all weights lie in the domain of $R$, one answer for all.
        domain: the domain in words.
        axes: how many axes of an array are one $w$: 1 for vectors, 2 for matrices.
        separable: whether $R$ is a sum over entries, so that its gradient acts on each alone.
        exponent: $p$ if $R$ is half the squared $p$-norm, else none.

    Example:
        ```python
        import numpy as np
        from secant.theory.bias import potentials

        entropy = potentials.entropy()
        entropy.inverse(entropy.gradient(np.array([0.5, 2.0])))  # the same again
        entropy.divergence(np.array([0.5, 2.0]), np.array([1.0, 1.0]))  # 0.5397...
        ```
    """

    name: str
    value: Callable[[Any], Any]
    gradient: Callable[[Any], Any]
    inverse: Callable[[Any], Any]
    slope: Callable[[Any, Any], Any]
    inside: Callable[[Any], bool] = lambda w: bool(np.all(np.isfinite(w)))
    domain: str = "finite weights"
    axes: int = 1
    separable: bool = True
    exponent: float | None = None

    def divergence(self, w: Any, start: Any) -> Any:
        r"""The Bregman divergence $D_R(w, w') = R(w) - R(w') - \langle\nabla R(w'), w - w'\rangle$, at least 0.

        Args:
            w: weights.
            start: $w'$, weights to measure from.
        """
        last = tuple(range(-self.axes, 0))
        return self.value(w) - self.value(start) - (self.gradient(start) * (w - start)).sum(last)


def _namespace(*arrays: Any) -> Any:
    """NumPy for arrays on the host, `jax.numpy` for all others."""
    return jnp if any(isinstance(a, jax.Array) for a in arrays) else np


def _positive(caller: str, name: str, value: Any) -> Any:
    """A finite number above 0, or an array of them."""
    if is_traced(value):
        return value
    try:
        found = value if isinstance(value, jax.Array) else np.asarray(value, float)
    except (TypeError, ValueError):
        raise TypeError(f"{caller}: `{name}` must be a number above 0 or an array of them, got {value!r}.") from None
    if not np.all(np.isfinite(found)) or not np.all(np.asarray(found) > 0):
        raise ValueError(f"{caller}: `{name}` must be finite and above 0, got {value!r}.")
    return found


def _are_positive(w: Any) -> bool:
    return bool(np.all(np.isfinite(w)) and np.all(np.asarray(w) > 0))


def entropy() -> Potential:
    r"""The entropy $\sum_i w_i\log w_i - w_i$ of positive weights; mirror descent multiplies by $e^{-\eta\nabla L}$."""

    def value(w: Any) -> Any:
        xp = _namespace(w)
        return (w * xp.log(xp.where(w > 0, w, 1.0)) - w).sum(-1)

    return Potential(
        "entropy",
        value,
        gradient=lambda w: _namespace(w).log(w),
        inverse=lambda z: _namespace(z).exp(z),
        slope=lambda z, v: _namespace(z, v).exp(z) * v,
        inside=_are_positive,
        domain="positive weights",
    )


def spectral_entropy() -> Potential:
    r"""The spectral entropy $R(W) = \operatorname{tr}(W\log W - W)$ of symmetric positive definite matrices.

    It is the entropy of the singular values, which are the eigenvalues. For other matrices this function is not convex.
    The derivative of the matrix exponential uses divided differences: in the eigenbasis of $Z$ the entry $ij$ of $V$ is
    multiplied by $(e^{z_i} - e^{z_j})/(z_i - z_j)$.
    """

    def through(function: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
        def of(w: Any) -> Any:
            xp = _namespace(w)
            values, vectors = xp.linalg.eigh(w)
            return (vectors * function(xp, values)[..., None, :]) @ xp.swapaxes(vectors, -1, -2)

        return of

    def value(w: Any) -> Any:
        xp = _namespace(w)
        values = xp.linalg.eigvalsh(w)
        return (values * xp.log(xp.where(values > 0, values, 1.0)) - values).sum(-1)

    def slope(z: Any, v: Any) -> Any:
        xp = _namespace(z, v)
        values, vectors = xp.linalg.eigh(z)
        mean, half = ((values[..., :, None] + sign * values[..., None, :]) / 2 for sign in (1, -1))
        ratio = xp.where(half == 0, 1.0, xp.sinh(half) / xp.where(half == 0, 1.0, half))
        turned = xp.swapaxes(vectors, -1, -2) @ v @ vectors
        return vectors @ (xp.exp(mean) * ratio * turned) @ xp.swapaxes(vectors, -1, -2)

    def inside(w: Any) -> bool:
        w = np.asarray(w)
        if w.ndim < 2 or w.shape[-1] != w.shape[-2] or not np.all(np.isfinite(w)):
            return False
        even = np.allclose(w, np.swapaxes(w, -1, -2), rtol=1e-6, atol=0)
        return bool(even and np.all(np.linalg.eigvalsh(w) > 0))

    return Potential(
        "spectral entropy",
        value,
        gradient=through(lambda xp, values: xp.log(values)),
        inverse=through(lambda xp, values: xp.exp(values)),
        slope=slope,
        inside=inside,
        domain="symmetric positive definite matrices",
        axes=2,
        separable=False,
    )


def quadratic(D: Real) -> Potential:
    r"""The potential $R(w) = \frac12w^\top Dw$; mirror descent is gradient descent preconditioned by $D^{-1}$.

    Args:
        D: a symmetric positive definite matrix, or its diagonal, or one number.
    """
    D = D if isinstance(D, jax.Array) else np.asarray(D, float)
    if D.ndim < 2:
        D = _positive("quadratic", "D", D)
        return Potential(
            "quadratic",
            value=lambda w: (D * w * w).sum(-1) / 2,
            gradient=lambda w: D * w,
            inverse=lambda z: z / D,
            slope=lambda z, v: v / D,
        )
    host = np.asarray(D)
    if host.ndim != 2 or host.shape[0] != host.shape[1] or not np.all(np.isfinite(host)):
        raise ValueError(f"quadratic: `D` must be a square matrix of finite numbers, got shape {host.shape}.")
    least = np.linalg.eigvalsh((host + host.T) / 2)[0]
    if not np.allclose(host, host.T, rtol=1e-8, atol=0) or not least > 0:
        raise ValueError(
            f"quadratic: `D` must be symmetric and positive definite; its least eigenvalue is {least:.3g}, and it is "
            f"{'' if np.allclose(host, host.T, rtol=1e-8, atol=0) else 'not '}symmetric."
        )
    backwards = np.linalg.inv(host)
    backwards = (backwards + backwards.T) / 2
    return Potential(
        "quadratic",
        value=lambda w: ((w @ host) * w).sum(-1) / 2,
        gradient=lambda w: w @ host,
        inverse=lambda z: z @ backwards,
        slope=lambda z, v: v @ backwards,
        separable=False,
    )


def lp(p: Real) -> Potential:
    r"""The potential $R(w) = \frac12\|w\|_p^2$ with $1 < p \le 2$, where it is strongly convex.

    Its gradient is $\|w\|_p^{2-p}\operatorname{sign}(w)|w|^{p-1}$. The inverse is the same formula with
    $q = p/(p - 1)$ in the place of $p$.

    Args:
        p: the norm's exponent, above 1 and at most 2.
    """
    p = float(p)
    if not 1 < p <= 2:
        raise ValueError(
            f"lp: `p` must be above 1 and at most 2, where the squared norm is smooth and strongly convex, got {p!r}. "
            "For the interpolant of least norm with any `p`, use `interpolants.min_norm`."
        )
    q = p / (p - 1)
    return Potential(
        f"l{p:g}",
        value=lambda w: _norm(w, p)[..., 0] ** 2 / 2,
        gradient=lambda w: _of_norm(w, p),
        inverse=lambda z: _of_norm(z, q),
        slope=lambda z, v: _slope_of_norm(z, v, q),
        separable=False,
        exponent=p,
    )


def _norm(w: Any, p: Any) -> Any:
    """The norm over the last axis, which stays with length 1; the largest entry is taken out so no power overflows."""
    xp = _namespace(w)
    size = abs(w).max(-1, keepdims=True)
    return size * ((abs(w) / xp.where(size > 0, size, 1.0)) ** p).sum(-1, keepdims=True) ** (1 / p)


def _of_norm(w: Any, p: Any) -> Any:
    xp = _namespace(w)
    norm = _norm(w, p)
    return norm * xp.sign(w) * (abs(w) / xp.where(norm > 0, norm, 1.0)) ** (p - 1)


def _slope_of_norm(z: Any, v: Any, q: float) -> Any:
    r"""The slope $(q-1)|u|^{q-2}v + (2-q)\,s\,(s\cdot v)$, $u = z/\|z\|_q$, $s = \operatorname{sign}(u)|u|^{q-1}$."""
    xp = _namespace(z, v)
    norm = _norm(z, q)
    u = abs(z) / xp.where(norm > 0, norm, 1.0)
    s = xp.sign(z) * u ** (q - 1)
    found = (q - 1) * u ** (q - 2) * v + (2 - q) * s * (s * v).sum(-1, keepdims=True)
    return xp.where(norm > 0, found, v)  # at 0 there is no derivative: use the one of p = 2


def steepest(g: Any, p: Real) -> Any:
    r"""The steepest direction in $\ell_p$, $\operatorname{argmin}_v g\cdot v + \frac12\|v\|_p^2$, over the last axis.

    It is $-\nabla\frac12\|g\|_q^2$ in the dual norm, $\frac1p + \frac1q = 1$, so
    $-g\cdot v = \|v\|_p^2 = \|g\|_q^2$:

    * $\ell_1$: $-g_je_j$ at the largest entry of $g$, the first of several;
    * $\ell_\infty$: $-\|g\|_1\operatorname{sign} g$;
    * in between: $-\|g\|_q^{2-q}\operatorname{sign}(g)|g|^{q-1}$.

    Args:
        g: the gradient, shape `(..., d)`.
        p: the norm's exponent, from 1 to infinity; a traced number must lie strictly between.

    Example:
        ```python
        import numpy as np
        from secant.theory.bias import potentials

        for p in (1, 2, np.inf):
            print(potentials.steepest(np.array([1.0, -3.0]), p))
        ```

        ```text
        [0. 3.]
        [-1.  3.]
        [-4.  4.]
        ```
    """
    if not is_traced(p):
        xp = _namespace(g)
        if p == 1:
            size = abs(g)
            return xp.where(xp.arange(g.shape[-1]) == size.argmax(-1)[..., None], -g, 0.0)
        if p == 2:
            return -g
        if p == np.inf:
            return -abs(g).sum(-1, keepdims=True) * xp.sign(g)
    return -_of_norm(g, p / (p - 1))


def hypentropy(alpha: Real) -> Potential:
    r"""The potential of the parametrisation $u^2 - v^2$, $R_\alpha(w) = \frac{\alpha^2}4\sum_i q(w_i/\alpha^2)$.

    Gradient flow on $u$ and $v$, started at $u = v = \alpha$, is mirror flow with this potential. Here
    $q(z) = 2 - \sqrt{4 + z^2} + z\operatorname{arcsinh}(z/2)$. For small $z$ this form loses digits, so the code
    uses $z\operatorname{arcsinh}(z/2) - z^2/(2 + \sqrt{4 + z^2})$. The gradient is
    $\frac14\operatorname{arcsinh}(w/2\alpha^2)$, its inverse $2\alpha^2\sinh 4z$. The solution of least $R_\alpha$
    tends to the solution of least 2-norm for large $\alpha$, and of least 1-norm for small $\alpha$.

    Args:
        alpha: $\alpha$, a number or one per coordinate; leading axes, as in `alpha[:, None]`, give one potential each.
    """
    square = _positive("hypentropy", "alpha", alpha) ** 2
    if not is_traced(square) and not (np.all(np.isfinite(square)) and np.all(np.asarray(square) > 0)):
        raise ValueError(f"hypentropy: `alpha` squared must be above 0 and finite in floating point, got {alpha!r}.")

    def value(w: Any) -> Any:
        xp = _namespace(w, square)
        z = w / square
        return (square / 4 * (z * xp.arcsinh(z / 2) - z * (z / (2 + xp.hypot(2.0, z))))).sum(-1)

    return Potential(
        "hypentropy",
        value,
        gradient=lambda w: _namespace(w, square).arcsinh(w / (2 * square)) / 4,
        inverse=lambda z: 2 * square * _namespace(z, square).sinh(4 * z),
        slope=lambda z, v: 8 * square * _namespace(z, v, square).cosh(4 * z) * v,
    )
