r"""How high, how long and how flat: the catapult as a function of width and step size.

The width enters the rescaled map only through the starting point: $u_0 = c\,\eta^2(g_0 - y)^2$ and $w_0$ are
of order $1/m$. So a wide model waits $\log m$ steps near $u = 0$, then follows one orbit that no longer knows
the width: the peak loss is proportional to $m$ and the final curvature does not depend on it. Excess means
$\delta = \eta\lambda_0 - 2$ throughout.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from secant.core.device import jit
from secant.theory.catapult.one_sample import growth, rescale, rescaled_target, separatrix, step

MONOTONE, CATAPULT, DIVERGENT = 0, 1, 2
"""Codes of the three regimes, as returned by the classifiers below."""

REGIMES = ("monotone", "catapult", "divergent")
"""Names of the regimes, indexed by their code."""


class CatapultOutcome(NamedTuple):
    r"""Peak, time to peak and end of a run of the rescaled map.

    Attributes:
        peak: largest $u = a^2$ met.
        time: the step at which it was met.
        curvature: $v$ at the end.
        square: $u$ at the end.
    """

    peak: Float[Array, "..."]
    time: Int[Array, "..."]
    curvature: Float[Array, "..."]
    square: Float[Array, "..."]


class IncreasingPhase(NamedTuple):
    r"""What is guaranteed while $u \le C'\delta^2/\log m$.

    Attributes:
        square: the level $C'\delta^2/\log m$ that ends the phase.
        growth: floor of the growth of $u$ per step, $(1 + \delta - C_\kappa\delta/\log m)^2$.
        drift: ceiling of $|v_t - v_0|$, $C_v\,\delta/\log m$.
    """

    square: Array
    growth: Array
    drift: Array


def catapult_outcome(a: ArrayLike, v: ArrayLike, b: ArrayLike = 0.0, steps: int = 1000) -> CatapultOutcome:
    r"""Peak, time to peak and final curvature of the rescaled map; broadcasts over starts.

    Diverging starts end at infinity or not-a-number. To leave them out, keep the starts with
    [`separatrix`][secant.theory.catapult.one_sample.separatrix] below zero.

    Args:
        a: rescaled residuals at the start.
        v: rescaled curvatures at the start.
        b: rescaled targets.
        steps: number of steps; the cost is a few flops per step and start.
    """
    first, curvature, target = jnp.broadcast_arrays(*(jnp.asarray(value, float) for value in (a, v, b)))

    def body(t: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        state, peak, time = step(carry[0], carry[1], target), carry[2], carry[3]
        higher = state.a**2 > peak
        return state.a, state.v, jnp.where(higher, state.a**2, peak), jnp.where(higher, t + 1, time)

    start = (first, curvature, first**2, jnp.zeros(first.shape, int))
    last, final, peak, time = jax.lax.fori_loop(0, steps, body, start)
    return CatapultOutcome(peak, time, final, last**2)


def time_to_peak(excess: ArrayLike, width: ArrayLike) -> Array:
    r"""Steps until the loss peaks, up to a constant: $T \approx \frac{\log m}{2\log(1 + \delta)}$.

    In the first phase each step multiplies $u$ by $(1 + \delta)^2$, from order $1/m$ to order one.

    Args:
        excess: $\delta = \eta\lambda_0 - 2$, in $(0, 2)$.
        width: $m$.
    """
    return jnp.log(jnp.asarray(width)) / (2 * jnp.log1p(jnp.asarray(excess)))


def small_excess_peak(excess: ArrayLike) -> Array:
    r"""Peak of $u$ at infinite width just past the edge, $\frac{\delta^2}{2} + \frac{\delta^3}{3} + O(\delta^4)$.

    Near $v = 2$ the residual flips its sign and changes slowly; the interpolating flow has the orbit
    $u = \frac12(\delta_0^2 - \delta^2) + \frac13(\delta_0^3 - \delta^3)$ with $\delta = v - 2$. The peak loss
    is $u_\ast\,m d / (2\eta^2\|x\|^2)$.
    """
    excess = jnp.asarray(excess)
    return excess**2 / 2 + excess**3 / 3


def small_excess_curvature(excess: ArrayLike) -> Array:
    r"""Final $\eta\lambda$ at infinite width just past the edge: $2 - \delta - \frac23\delta^2 + O(\delta^3)$.

    The catapult overshoots the edge by a little more than it started beyond it.
    """
    excess = jnp.asarray(excess)
    return 2 - excess - 2 * excess**2 / 3


def final_curvature(v: ArrayLike, squares: Float[Array, "steps ..."]) -> Array:
    r"""Final curvature from the squares met, for $y = 0$: $4 - v_\infty = (4 - v_0)\prod_t (1 + u_t)$.

    The product is finite because the left side is at most 4; hence $u_t \to 0$ from every start with
    $v_0 < 4$, which proves convergence below the maximal step.

    Args:
        v: $v_0$.
        squares: $u_0, u_1, \dots$ along the first axis.
    """
    return 4 - (4 - jnp.asarray(v)) * jnp.prod(1 + squares, axis=0)


def lazy_drift(square: ArrayLike, curvature: ArrayLike, pull: ArrayLike = 0.0) -> Array:
    r"""Total change of $v$ below the edge to leading order in $1/m$.

    $$v_\infty - v_0 = -\frac{(4 - v_0)\,u_0}{v_0(2 - v_0)} - \frac{4 w_0}{v_0} + O(m^{-2}),$$

    the sum of two geometric series with ratios $(1 - v_0)^2$ and $1 - v_0$.

    Args:
        square: $u_0$.
        curvature: $v_0 = \eta\lambda_0$, in $(0, 2)$.
        pull: $w_0$.
    """
    v = jnp.asarray(curvature)
    return -(4 - v) * square / (v * (2 - v)) - 4 * jnp.asarray(pull) / v


def lazy_bounds(excess: ArrayLike, width: ArrayLike, start: ArrayLike, pull: ArrayLike = 0.0) -> tuple[Array, Array]:
    r"""Guarantees below the edge: a ceiling of $|v_t - v_0|$ and one of the growth of $u$ per step.

    With $u_0 \le C_u/m$, $|w_0| \le C\sqrt{C_u}/m$ and $\delta = \min(\eta\lambda_0, 2 - \eta\lambda_0)$, the
    geometric series give $|v_t - v_0| \le \frac{8(C_u + C\sqrt{C_u})}{m\delta}$ and
    $\kappa_t \le \big(1 - \delta + \frac{C_\kappa}{m\delta}\big)^2$ with
    $C_\kappa = (8 + \delta)(C_u + C\sqrt{C_u})$, for $m > 12\,C_\kappa/\delta^2$.

    Args:
        excess: $\delta$, the distance of $\eta\lambda_0$ from 0 or 2.
        width: $m$.
        start: $C_u = m u_0$.
        pull: $C = \eta\|x\||y|/\sqrt d$.

    Returns:
        The ceilings of $|v_t - v_0|$ and of $\kappa_t$.
    """
    excess = jnp.asarray(excess)
    total = jnp.asarray(start) + pull * jnp.sqrt(start)
    drift = 8 * total / (width * excess)
    return drift, (1 - excess + drift + total / width) ** 2


def slowest_contraction(a: ArrayLike, v: ArrayLike, b: ArrayLike = 0.0, steps: int = 100) -> Array:
    r"""The largest factor of the loss in one step, $(a_{t+1}/a_t)^2$, within `steps` steps.

    Args:
        a: rescaled residuals at the start, not zero.
        v: rescaled curvatures at the start.
        b: rescaled targets.
        steps: number of steps.
    """
    first, curvature, target = jnp.broadcast_arrays(*(jnp.asarray(value, float) for value in (a, v, b)))

    def body(_: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        now, (after, v) = carry[0], step(carry[0], carry[1], target)
        # A residual this small counts as zero, but the next step divides by it.
        return jnp.where(jnp.abs(after) < 1e-150, 1e-150, after), v, jnp.maximum(carry[2], (after / now) ** 2)

    return jax.lax.fori_loop(0, steps, body, (first, curvature, jnp.zeros_like(first)))[2]


def rising_edge(output: ArrayLike, curvature: ArrayLike, width: ArrayLike, target: ArrayLike, steps: int) -> float:
    r"""The smallest step size at which the loss of one sample rises, over the critical step size $2/\lambda_0$.

    The exact map is run on a grid of 4001 ratios between a half and three halves.

    Args:
        output: $g_0$.
        curvature: $\lambda_0$.
        width: $m$.
        target: $y$.
        steps: number of steps of the map.
    """
    ratios = np.linspace(0.5, 1.5, 4_001)

    def rises(output: Array, curvature: Array) -> Array:
        lrs = 2 * ratios / curvature
        start, bend = rescale(output, curvature, lrs, width, target), rescaled_target(lrs, width, target)
        return catapult_outcome(start.a, start.v, bend, steps=steps).peak > start.a**2 * (1 + 1e-9)

    return float(ratios[np.asarray(jit(rises, quick=True)(output, curvature))][0])


def increasing_phase(
    excess: ArrayLike, width: ArrayLike, pull: ArrayLike = 0.0, constant: ArrayLike = 0.02
) -> IncreasingPhase:
    r"""Guarantees for the rise of the loss, while $u \le C'\delta^2/\log m$.

    With $C_v = 28C'$ and $C_\kappa = 28C' + C'\delta + C\sqrt{C'}$:
    $\kappa_t \ge (1 + \delta - C_\kappa\delta/\log m)^2$ and $|v_t - v_0| \le C_v\delta/\log m$. Valid for
    the widths that [`increasing_phase_applies`][secant.theory.catapult.scaling.increasing_phase_applies]
    accepts.

    Args:
        excess: $\delta$.
        width: $m$.
        pull: $C = \eta\|x\||y|/\sqrt d$.
        constant: $C'$, free; the smaller, the earlier the phase ends.
    """
    excess, constant = jnp.asarray(excess), jnp.asarray(constant)
    log = jnp.log(jnp.asarray(width))
    ratio = 28 * constant + constant * excess + pull * jnp.sqrt(constant)
    return IncreasingPhase(
        square=constant * excess**2 / log,
        growth=(1 + excess - ratio * excess / log) ** 2,
        drift=28 * constant * excess / log,
    )


def increasing_phase_applies(
    excess: ArrayLike, width: ArrayLike, start: ArrayLike, pull: ArrayLike = 0.0, constant: ArrayLike = 0.02
) -> Bool[Array, "..."]:
    r"""Whether the width is large enough for the guarantees of `increasing_phase`.

    $\frac{m}{\log m} \ge \frac{C_u + C\sqrt{C_u}}{C_\kappa\delta}$,
    $\frac{m}{\log m} \ge \frac{2C_u + 4C\sqrt{C_u}}{C_v\delta}$, $m \ge \frac{576C^2}{C'\delta^2}$ and
    $\log m \ge \max(C_v\delta, 4C_\kappa)$, where $u_0 \le C_u/m$.
    """
    excess, width, constant = jnp.asarray(excess), jnp.asarray(width), jnp.asarray(constant)
    log = jnp.log(width)
    drift = 28 * constant
    ratio = drift + constant * excess + pull * jnp.sqrt(constant)
    kick = pull * jnp.sqrt(start)
    return (
        (width / log >= (start + kick) / (ratio * excess))
        & (width / log >= (2 * jnp.asarray(start) + 4 * kick) / (drift * excess))
        & (width >= 576 * jnp.square(pull) / (constant * excess**2))
        & (log >= drift * excess)
        & (log >= 4 * ratio)
    )


def decrease_threshold(curvature: ArrayLike, width: ArrayLike, pull: ArrayLike) -> Array:
    r"""The square above which the curvature must fall: $u > \frac{16\,C^2}{m(4 - v)^2}$ implies $v' < v$.

    The reason is $v' - v = -u(4 - v) - 4w$ and $|w| = C\sqrt{u/m}$. With the other sign of $w$ the curvature falls
    anyway, so the bound is sharp.

    Args:
        curvature: $v < 4$.
        width: $m$.
        pull: $C = \eta\|x\||y|/\sqrt d$.
    """
    return 16 * jnp.square(pull) / (jnp.asarray(width) * (4 - jnp.asarray(curvature)) ** 2)


def regime(a: ArrayLike, v: ArrayLike, b: ArrayLike = 0.0) -> Int[Array, "..."]:
    r"""Which regime a start leads to.

    Monotone where the first step shrinks the loss, divergent past the separatrix, catapult otherwise.

    Returns:
        0 (monotone), 1 (catapult) or 2 (divergent).
    """
    rising = jnp.abs(growth(a, v, b)) > 1
    return jnp.where(separatrix(a, v, b) > 0, DIVERGENT, jnp.where(rising, CATAPULT, MONOTONE))


def classify_run(loss: Float[Array, "... steps"], rise: float = 1.0, ceiling: float = jnp.inf) -> Int[Array, "..."]:
    r"""The regime of a recorded run, from its losses alone.

    Args:
        loss: training losses along the last axis.
        rise: a run whose loss ever exceeds `rise` times its first value is not monotone; 1 is strict.
        ceiling: a run that ends above this, or not finite, or above its first value, is divergent.

    Returns:
        0 (monotone), 1 (catapult) or 2 (divergent).
    """
    last = loss[..., -1]
    diverged = ~jnp.isfinite(last) | (last > jnp.minimum(loss[..., 0], ceiling))
    risen = jnp.nanmax(loss, axis=-1) > rise * loss[..., 0]
    return jnp.where(diverged, DIVERGENT, jnp.where(risen, CATAPULT, MONOTONE))
