r"""Gradient descent on the neural quadratic model of one sample, exactly, in two numbers.

A two-layer ReLU network whose gates are frozen at initialisation is the bilinear function
$g(u, v) = \frac{1}{\sqrt{md}} \sum_i G_i\, v_i\, u_i^\top x$. On one sample $(x, y)$ with the loss
$\frac12 (g - y)^2$, gradient descent closes on its output $g$ and its tangent kernel
$\lambda = \|\nabla g\|^2$. With $c = \|x\|^2 / (md)$ and

$$a = \sqrt c\, \eta\, (g - y), \qquad b = \sqrt c\, \eta\, y, \qquad v = \eta \lambda,$$

one step is a polynomial map of the plane,

$$a' = (1 - v + a^2 + ab)\, a, \qquad v' = v - a^2 (4 - v) - 4ab .$$

Everything else follows from two factorisations of this map. The edges $P_\pm = v \pm 2(a + b)$ obey
$P_\pm' = (1 \mp a)^2 P_\pm$, so they stay non-negative; the separatrix $q = v - 4 - ab$ obeys
$q' = (1 + a^2 + ab)\, q$, so it keeps its sign. Between them lies a bounded region: $q < 0$ and $|b| < 2$
confine $|a| < 2$.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from secant.dynamics import Map


class Catapult(NamedTuple):
    r"""Rescaled state of the model, with the sign of the residual.

    Attributes:
        a: rescaled residual, $a = \sqrt{c}\,\eta\,(g - y)$.
        v: rescaled curvature, $v = \eta\lambda$.
    """

    a: Float[Array, "..."]
    v: Float[Array, "..."]


class CatapultSquares(NamedTuple):
    r"""Rescaled state of the model in squares, without square roots of the width.

    Attributes:
        u: $a^2 = c\,\eta^2 (g - y)^2$, proportional to the loss.
        v: $\eta\lambda$.
        w: $ab = c\,\eta^2 (g - y)\,y$; it carries the sign of the residual.
    """

    u: Float[Array, "..."]
    v: Float[Array, "..."]
    w: Float[Array, "..."]


class Equilibrium(NamedTuple):
    r"""A fixed or periodic point of the $(a, v)$ map.

    Attributes:
        name: which family it belongs to.
        period: 1 for a fixed point, 2 for a point of an orbit of period two.
        a: rescaled residual.
        v: rescaled curvature.
        multipliers: eigenvalues of the Jacobian of the period-th iterate.
    """

    name: str
    period: int
    a: float
    v: float
    multipliers: tuple[float, float]


def step(a: ArrayLike, v: ArrayLike, b: ArrayLike = 0.0) -> Catapult:
    r"""One step of gradient descent, $a' = (1 - v + a^2 + ab)\,a$, $v' = v - a^2(4 - v) - 4ab$.

    Args:
        a: rescaled residual; broadcasts.
        v: rescaled curvature.
        b: rescaled target, see [`rescaled_target`][secant.theory.catapult.one_sample.rescaled_target].
    """
    a, v, b = jnp.asarray(a), jnp.asarray(v), jnp.asarray(b)
    return Catapult((1 - v + a * (a + b)) * a, v - a * a * (4 - v) - 4 * a * b)


def rescaled_target(lr: ArrayLike, width: ArrayLike, target: ArrayLike, size: ArrayLike = 1.0) -> Array:
    r"""The target in the units of the map, $b = \sqrt{\|x\|^2/(md)}\;\eta\,y$.

    Args:
        lr: step size $\eta$ for the loss $\frac12 (g - y)^2$.
        width: number of hidden neurons $m$.
        target: $y$.
        size: squared norm of the input per dimension, $\|x\|^2 / d$.
    """
    return jnp.sqrt(jnp.asarray(size) / jnp.asarray(width)) * lr * target


def rescale(
    output: ArrayLike,
    curvature: ArrayLike,
    lr: ArrayLike,
    width: ArrayLike,
    target: ArrayLike = 0.0,
    size: ArrayLike = 1.0,
) -> Catapult:
    r"""The state $(a, v)$ of a model with output $g$ and tangent kernel $\lambda$."""
    a = jnp.sqrt(jnp.asarray(size) / jnp.asarray(width)) * lr * (jnp.asarray(output) - target)
    return Catapult(a, jnp.asarray(lr) * curvature)


def unscale(
    state: Catapult, lr: ArrayLike, width: ArrayLike, target: ArrayLike = 0.0, size: ArrayLike = 1.0
) -> tuple[Array, Array]:
    r"""Output $g$ and tangent kernel $\lambda$ of a rescaled state.

    Inverts [`rescale`][secant.theory.catapult.one_sample.rescale].
    """
    output = state.a / (jnp.sqrt(jnp.asarray(size) / jnp.asarray(width)) * lr) + target
    return output, state.v / jnp.asarray(lr)


def loss_from_square(u: ArrayLike, lr: ArrayLike, width: ArrayLike, size: ArrayLike = 1.0) -> Array:
    r"""The loss $\frac12 (g - y)^2 = u / (2 c \eta^2)$ of a state with $u = a^2$."""
    return jnp.asarray(u) * width / (2 * jnp.square(lr) * size)


def catapult(lr: ArrayLike, width: ArrayLike, target: ArrayLike = 0.0, size: ArrayLike = 1.0) -> Map:
    r"""The neural quadratic model on one sample, exactly, in two numbers.

    $a' = (1 - v + a^2 + ab)\,a, \qquad v' = v - a^2(4 - v) - 4ab$, with $v = \eta\lambda$ and
    $a = \sqrt c\,\eta\,(g - y)$.

    `init` takes the pair (output, curvature) of the untrained model; the state is a
    [`Catapult`][secant.theory.catapult.one_sample.Catapult].

    Args:
        lr: step size $\eta$ for the loss $\frac12 (g - y)^2$.
        width: number of hidden neurons $m$.
        target: $y$.
        size: squared norm of the input per dimension, $\|x\|^2 / d$.

    Example:
        ```python
        from secant.theory.catapult.one_sample import catapult

        model = catapult(lr=3.0, width=1000, target=0.5)
        state = model.init((0.2, 1.0))
        state = model.step(state)
        ```
    """
    b = rescaled_target(lr, width, target, size)
    return Map(
        init=lambda start: rescale(start[0], start[1], lr, width, target, size),
        step=lambda state: step(state.a, state.v, b),
    )


def reduced_catapult(b: ArrayLike = 0.0) -> Map:
    r"""The $(a, v)$ map on rescaled states.

    `init` takes a [`Catapult`][secant.theory.catapult.one_sample.Catapult]; `b` is the rescaled target.
    """
    return Map(
        init=lambda start: Catapult(jnp.asarray(start[0]), jnp.asarray(start[1])),
        step=lambda state: step(state.a, state.v, b),
    )


def squares_catapult() -> Map:
    r"""The map in squares: $u' = (1 - v + u + w)^2 u$, $v' = v - u(4 - v) - 4w$, $w' = (1 - v + u + w)\,w$.

    No parameter is left: step size, width, input and target are in the starting point
    [`CatapultSquares`][secant.theory.catapult.one_sample.CatapultSquares].
    """

    def advance(state: CatapultSquares) -> CatapultSquares:
        u, v, w = state
        growth = 1 - v + u + w
        return CatapultSquares(growth**2 * u, v - u * (4 - v) - 4 * w, growth * w)

    return Map(init=lambda start: CatapultSquares(*map(jnp.asarray, start)), step=advance)


def squares(state: Catapult, b: ArrayLike = 0.0) -> CatapultSquares:
    r"""$(u, v, w) = (a^2, v, ab)$."""
    return CatapultSquares(state.a**2, state.v, state.a * b)


def edges(a: ArrayLike, v: ArrayLike, b: ArrayLike = 0.0) -> tuple[Array, Array]:
    r"""The pair $P_\pm = v \pm 2(a + b)$, which gradient descent multiplies: $P_\pm' = (1 \mp a)^2 P_\pm$.

    For the network $P_\pm = \frac{\eta}{md} \sum_i G_i\,(u_i^\top x \pm \|x\| v_i)^2$, a sum of squares, so
    $P_\pm \ge 0$. Up to the shift by $b$ they are the whole state: $v = (P_+ + P_-)/2$,
    $a = (P_+ - P_-)/4 - b$.
    """
    a, v, b = jnp.asarray(a), jnp.asarray(v), jnp.asarray(b)
    return v + 2 * (a + b), v - 2 * (a + b)


def feasible(a: ArrayLike, v: ArrayLike, b: ArrayLike = 0.0) -> Bool[Array, "..."]:
    r"""Whether some network has this state: $v \ge 2|a + b|$, that is $\lambda \ge 2\sqrt c\,|g|$.

    Every network satisfies this, by the inequality of arithmetic and geometric means, and gradient descent keeps it
    (see [`edges`][secant.theory.catapult.one_sample.edges]).
    """
    return jnp.asarray(v) >= 2 * jnp.abs(jnp.asarray(a) + b)


def imbalance_factor(a: ArrayLike) -> Array:
    r"""The factor by which one step multiplies the imbalance of the layers, $D' = (1 - a^2)\,D$.

    The imbalance is $D = \|\nabla_u g\|^2 - \|\nabla_v g\|^2$.

    Together with the [`edges`][secant.theory.catapult.one_sample.edges] this makes $D^2 / (P_+ P_-)$ a constant of
    gradient descent at any step size.
    """
    return 1 - jnp.square(jnp.asarray(a))


def separatrix(a: ArrayLike, v: ArrayLike, b: ArrayLike = 0.0) -> Array:
    r"""The signed distance to the border of divergence, $q = v - 4 - ab$; it obeys $q' = (1 + a^2 + ab)\,q$.

    The factor is positive for every $a$ when $|b| < 2$, so $q$ never changes sign. A run with $q > 0$ diverges. A run
    with $q < 0$ stays bounded; for $|b| < 1$, where stable minima exist, it comes to rest.
    """
    return jnp.asarray(v) - 4 - jnp.asarray(a) * b


def separatrix_factor(a: ArrayLike, b: ArrayLike = 0.0) -> Array:
    r"""The growth of the separatrix coordinate in one step, $1 + a^2 + ab$."""
    a = jnp.asarray(a)
    return 1 + a * (a + b)


def max_step(
    output: ArrayLike,
    curvature: ArrayLike,
    width: ArrayLike,
    target: ArrayLike = 0.0,
    size: ArrayLike = 1.0,
) -> Array:
    r"""The largest step size from which gradient descent does not diverge, exactly.

    At this step size the start lies on the separatrix, $\eta\lambda_0 = 4 + c\,\eta^2 (g_0 - y)\,y$:

    $$\eta_{\max} = \frac{8}{\lambda_0 + \sqrt{\lambda_0^2 - 16\,c\,(g_0 - y)\,y}} .$$

    The root is real for every network, because $\lambda_0 \ge 2\sqrt c\,|g_0|$ and
    $(g_0 - y)\,y \le g_0^2/4$. For $(g_0 - y)\,y > 0$, $\eta_{\max}$ is the smaller of two solutions; otherwise it is
    the only positive one. There $|b| \le 2$, so for smaller steps $q$ keeps its sign. For $y = 0$ or infinite width
    $\eta_{\max}$ is $4/\lambda_0$.

    Below $\eta_{\max}$ the run converges wherever a stable minimum exists. Every minimum has $v \ge 2|b|$, so a stable
    one, $v < 2$, exists only for $|b| = \sqrt c\,\eta|y| < 1$. For larger $|b|$ the run stays bounded without coming to
    rest.

    Args:
        output: $g_0$, output of the untrained model.
        curvature: $\lambda_0$, its tangent kernel.
        width: number of hidden neurons $m$.
        target: $y$.
        size: $\|x\|^2 / d$.

    Returns:
        $\eta_{\max}$ for the loss $\frac12 (g - y)^2$; not-a-number where no network has this output and
        curvature.

    Example:
        ```python
        from secant.theory.catapult.one_sample import max_step

        max_step(output=0.3, curvature=1.0, width=100, target=1.0)   # 3.894
        ```
    """
    curvature = jnp.asarray(curvature)
    bend = jnp.asarray(size) / width * (jnp.asarray(output) - target) * target
    return 8 / (curvature + jnp.sqrt(curvature**2 - 16 * bend))


def separatrix_orbit(a: ArrayLike, steps: int) -> Float[Array, "steps ..."]:
    r"""The residual on the separatrix, where gradient descent is the third Chebyshev polynomial.

    With $v = 4 + ab$ the map is $a' = a^3 - 3a$, whatever $b$. For $|a_0| \le 2$ put $a_0 = 2\cos\theta$;
    then $a_t = 2\cos(3^t\theta)$, which is fully developed chaos with Lyapunov exponent $\log 3$.

    Args:
        a: rescaled residual at the start, within $[-2, 2]$.
        steps: number of steps.

    Returns:
        $a_0, \dots, a_{\text{steps}}$ along a new leading axis of length `steps + 1`.
    """
    angle = jnp.arccos(jnp.asarray(a) / 2)
    powers = 3.0 ** jnp.arange(steps + 1)
    return 2 * jnp.cos(powers.reshape((-1,) + (1,) * angle.ndim) * angle)


def transverse_exponent() -> float:
    r"""Mean growth rate away from the separatrix, when $y = 0$: $2\log\frac{1 + \sqrt 5}{2}$.

    It is the average of $\log(1 + a^2)$ over the arcsine law on $[-2, 2]$, the invariant measure of
    $a' = a^3 - 3a$.
    """
    return float(2 * jnp.log((1 + jnp.sqrt(5.0)) / 2))


def jacobian(a: ArrayLike, v: ArrayLike, b: ArrayLike = 0.0) -> Float[Array, "... 2 2"]:
    r"""Jacobian of the map in $(a, v)$.

    $$\begin{pmatrix} 1 - v + 3a^2 + 2ab & -a \\ -2a(4 - v) - 4b & 1 + a^2 \end{pmatrix}$$
    """
    a, v, b = jnp.broadcast_arrays(jnp.asarray(a), jnp.asarray(v), jnp.asarray(b))
    top = jnp.stack([1 - v + 3 * a**2 + 2 * a * b, -a], axis=-1)
    bottom = jnp.stack([-2 * a * (4 - v) - 4 * b, 1 + a**2], axis=-1)
    return jnp.stack([top, bottom], axis=-2)


def equilibria(b: float = 0.0) -> list[Equilibrium]:
    r"""The fixed points away from the minima, and the points of period two, with their multipliers.

    The minima are the line $a = 0$, with multipliers $1 - v$ and $1$: stable for $0 < v < 2$. Away from it,

    * $(a, v) = (-b, 0)$, where output and curvature both vanish: multipliers $(1 \pm |b|)^2$, a saddle;
    * $(\pm 2, 4 \pm 2b)$ on the separatrix: multipliers $9$ and $5 \pm 2b$;
    * of period two, $\pm(\sqrt 2, -\sqrt 2)$: multipliers $9$ and $9 - 2b^2$;
    * of period two, $\pm(\phi, -1/\phi)$ with the golden ratio $\phi$: multipliers $-9$ and
      $(1 + \phi^2 \pm \phi b)(1 + \phi^{-2} \mp b/\phi)$.

    All of them are unstable. Runs on the host.

    Args:
        b: rescaled target, $|b| < 2$.
    """
    golden = (1 + 5**0.5) / 2
    points = [Equilibrium("zero output", 1, -b, 0.0, ((1 + abs(b)) ** 2, (1 - abs(b)) ** 2))]
    points += [Equilibrium("corner", 1, s * 2.0, 4 + s * 2 * b, (9.0, 5 + s * 2 * b)) for s in (1, -1)]
    root = 2**0.5
    points += [Equilibrium("root two", 2, s * root, 4 + s * root * b, (9.0, 9 - 2 * b * b)) for s in (1, -1)]
    for s in (1, -1):
        across = (1 + golden**2 + s * golden * b) * (1 + golden**-2 - s * b / golden)
        for a in (s * golden, -s / golden):
            points.append(Equilibrium("golden", 2, a, 4 + a * b, (-9.0, across)))
    return points


def confined(a: ArrayLike, v: ArrayLike, b: ArrayLike = 0.0) -> Bool[Array, "..."]:
    r"""Whether a state is in the region that gradient descent never leaves: $q < 0$, $v \ge 2|a + b|$, $|b| < 2$.

    In this region $|a| < 2$, so the loss never exceeds $2/(c\,\eta^2) = 2 m d / (\eta^2 \|x\|^2)$.
    """
    return (separatrix(a, v, b) < 0) & feasible(a, v, b) & (jnp.abs(jnp.asarray(b)) < 2)


def growth(a: ArrayLike, v: ArrayLike, b: ArrayLike = 0.0) -> Array:
    r"""The factor by which one step multiplies the residual, $\mu = 1 - v + a^2 + ab$."""
    return separatrix_factor(a, b) - v
