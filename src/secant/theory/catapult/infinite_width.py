r"""The catapult at infinite width: all starts follow one orbit and differ only in their phase.

A model of width $m$ starts at $a_0 = O(m^{-1/2})$ and leaves along the unstable direction, where a step multiplies
$a$ by $-(1 + \delta)$. So up to a sign the starts $a_0$ and $(1 + \delta)\,a_0$ lie on the same orbit, a step apart. As
$m \to \infty$ with $\delta = \eta\lambda_0 - 2$ held fixed there is one orbit for each phase $s \in [0, 1)$: the limit
$a_0 \to 0$ along $a_0 \propto (1 + \delta)^s$. Peak, final curvature and distance depend on the width through this
phase alone.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from secant.core.device import jit
from secant.theory.catapult.one_sample import step

START = 1e-6
"""The residual at the start, in units of the excess; the error of the limit is of the order of its square."""


class WideLimit(NamedTuple):
    r"""Peak, final curvature and distance of a catapult at infinite width, for each phase.

    Attributes:
        peak: largest $u = c\,\eta^2(g - y)^2$.
        curvature: $\eta\lambda$ at the end.
        distance: final distance of the weights from their start, over $\sqrt{m\lambda_0 d}\,/\|x\|$.
    """

    peak: Float[Array, "... phases"]
    curvature: Float[Array, "... phases"]
    distance: Float[Array, "... phases"]


def wide_limit(excess: ArrayLike, phases: int = 256, steps: int = 2000) -> WideLimit:
    r"""The catapult of the quadratic model of a two-layer ReLU network, on one sample at infinite width.

    With $s_i = u_i^\top x/\|x\|$ a step multiplies $s_i + v_i$ by $1 - a$ and $s_i - v_i$ by $1 + a$. At the start the
    two sums of squares are equal, $m\lambda_0$ for an input of size one, so that

    $$\frac{|w - w_0|^2}{m\lambda_0} = \tfrac12\Big(\prod_t(1 - a_t) - 1\Big)^2
    + \tfrac12\Big(\prod_t(1 + a_t) - 1\Big)^2 .$$

    Args:
        excess: $\delta$, in $(0, 2)$; its axes come first in the result.
        phases: number of phases, evenly spaced.
        steps: enough for the orbit to come to rest, about $40/\delta$.

    Example:
        ```python
        from secant.theory.catapult.infinite_width import wide_limit

        limit = wide_limit(1.0)
        limit.peak.min(), limit.peak.max()  # 0.66 and 0.83: times m, the peak of every wide model
        ```
    """
    delta = jnp.asarray(excess, float)[..., None]
    first = START * delta * (1 + delta) ** (jnp.arange(phases) / phases)

    def body(_: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        a, v, peak, plus, minus = carry
        after = step(a, v)
        return after.a, after.v, jnp.maximum(peak, after.a**2), plus * (1 - a), minus * (1 + a)

    ones = jnp.ones_like(first)
    _, v, peak, plus, minus = jax.lax.fori_loop(0, steps, body, (first, (2 + delta) * ones, first**2, ones, ones))
    return WideLimit(peak, v, jnp.sqrt(((plus - 1) ** 2 + (minus - 1) ** 2) / 2))


def wide_network_limit(excess: ArrayLike, phases: int = 16, nodes: int = 1000, steps: int = 1000) -> WideLimit:
    r"""The catapult of the two-layer ReLU network itself, on one sample, with outer weights $\pm 1$ at the start.

    At infinite width a sum over neurons is an expectation over their start, $s \sim \mathcal N(0, 1)$, $v = \pm 1$:

    $$a = \eta\,\mathbb E[v\,s_+], \qquad s' = s - a\,v\,1_{s > 0}, \qquad v' = v - a\,s_+, \qquad
    \eta\lambda = \eta\,\mathbb E[(v^2 + s^2)\,1_{s > 0}] .$$

    Neurons that are off at the start have no gradient and do not move; those that switch off on the way stay off too.

    Args:
        excess: $\delta > 0$.
        phases: number of phases, evenly spaced.
        nodes: number of quantiles of $s$ that replace its distribution.
        steps: enough for the orbit to come to rest.
    """
    delta = jnp.asarray(excess, float)
    quantiles = jax.scipy.special.ndtri(0.5 + (jnp.arange(nodes) + 0.5) / (2 * nodes))
    # Half of the neurons are off for ever: an expectation is half the mean over the other half.
    s, v = jnp.tile(quantiles, 2), jnp.repeat(jnp.array([1.0, -1.0]), nodes)
    curvature = jnp.mean(v**2 + s**2) / 2
    lr = (2 + delta) / curvature
    first = START * delta * (1 + delta) ** (jnp.arange(phases) / phases)

    def one(start: Array) -> WideLimit:
        def residual(s: Array, v: Array) -> Array:
            return lr * jnp.mean(v * jnp.maximum(s, 0)) / 2 + start

        def body(_: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            s, v, peak = carry
            a = residual(s, v)
            return s - a * v * (s > 0), v - a * jnp.maximum(s, 0), jnp.maximum(peak, a**2)

        s_end, v_end, peak = jax.lax.fori_loop(0, steps, body, (s, v, jnp.zeros(())))
        end = lr * jnp.mean((v_end**2 + s_end**2) * (s_end > 0)) / 2
        moved = jnp.mean((s_end - s) ** 2 + (v_end - v) ** 2) / 2
        return WideLimit(peak, end, jnp.sqrt(moved / curvature))

    return jax.vmap(one)(first)


def small_excess_orders(largest: float = 0.1, phases: int = 64) -> tuple[float, float]:
    r"""The next coefficients of the peak, after $\frac12\delta^2$, and of the final curvature, after $2 - \delta$.

    They are the limits, as $\delta \to 0$, of $(u - \frac12\delta^2)/\delta^3$ for the highest peak and of
    $(2 - \delta - \eta\lambda)/\delta^2$ for the end. Richardson's extrapolation from $\delta$ and two halvings leaves
    an error of third order.

    Args:
        largest: the largest $\delta$.
        phases: number of phases. Between whole steps the orbit would peak a little higher; the highest peak of all
            phases is nearest to that.
    """
    deltas = largest / 2.0 ** np.arange(3)
    limit = jit(partial(wide_limit, phases=phases, steps=int(60 / deltas[-1])), quick=True)(deltas)
    peak = (np.asarray(limit.peak).max(axis=-1) - deltas**2 / 2) / deltas**3
    end = (2 - deltas - np.asarray(limit.curvature).mean(axis=-1)) / deltas**2
    once = [2 * table[1:] - table[:-1] for table in (peak, end)]
    found = [(4 * table[1] - table[0]) / 3 for table in once]
    return float(found[0]), float(found[1])
