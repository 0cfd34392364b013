r"""The quartic loss: one residual that is quadratic in the parameters.

$$z(\theta) = \tfrac12\left(\theta^\top Q\,\theta - E\right), \qquad L = \tfrac12 z^2, \qquad
  J = \partial z/\partial\theta = Q\theta .$$

The tangent kernel is the scalar $J J^\top = |Q\theta|^2$. In units where the step size is one, $\tilde z = \eta z$,
$\tilde J = \sqrt\eta J$ and $\tilde E = \eta E$, gradient descent is a closed recursion of the residual and the
Jacobian's components in the eigenbasis of $Q$, or of the residual and the moments
$T(k) = \sum_i \omega_i^k \tilde J_i^2$. $T(0)$ is the rescaled curvature $\eta\lambda$; the edge of stability is
$T(0) = 2$.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from secant.core.types import Real
from secant.dynamics import Map


class Modes(NamedTuple):
    r"""Rescaled residual and Jacobian in the eigenbasis of $Q$.

    Attributes:
        z: residual $\tilde z = \eta z$, shape `()`.
        J: Jacobian components $\tilde J_i = \sqrt\eta\,(Q\theta)_i$, shape `(modes,)`.
    """

    z: Array | float
    J: Float[Array, " modes"]


class Moments(NamedTuple):
    r"""Rescaled residual and the first moments of the spectrum under the Jacobian.

    Attributes:
        z: residual $\tilde z$, shape `()`.
        T: $T(0), \dots, T(m-1)$, shape `(m,)`.
    """

    z: Array | float
    T: Float[Array, " m"]


def residual(theta: Float[Array, " p"], Q: Float[Array, "p p"], E: Array | float = 0.0) -> Array:
    r"""Residual $z = \tfrac12(\theta^\top Q\theta - E)$.

    Args:
        theta: parameters, shape `(p,)`.
        Q: symmetric matrix, shape `(p, p)`.
        E: offset.

    Returns:
        Scalar array.
    """
    return (theta @ Q @ theta - E) / 2


def loss(theta: Float[Array, " p"], Q: Float[Array, "p p"], E: Array | float = 0.0) -> Array:
    r"""Loss $L = z^2/2$, quartic in the parameters.

    Args:
        theta: parameters, shape `(p,)`.
        Q: symmetric matrix, shape `(p, p)`.
        E: offset.

    Returns:
        Scalar array.
    """
    return residual(theta, Q, E) ** 2 / 2


def quartic(Q: Float[Array, "p p"], lr: Array | float, E: Array | float = 0.0) -> Map:
    r"""Gradient descent on the quartic loss, $\theta_{t+1} = \theta_t - \eta\, z(\theta_t)\, Q\theta_t$.

    Args:
        Q: symmetric matrix, shape `(p, p)`.
        lr: step size $\eta$.
        E: offset.

    Returns:
        A Map whose state is the parameter vector, shape `(p,)`.
    """

    def step(theta: Array) -> Array:
        return theta - lr * residual(theta, Q, E) * (Q @ theta)

    return Map(init=jnp.asarray, step=step)


def quartic_flow(Q: Float[Array, "p p"], E: Array | float = 0.0, lr: Array | float = 1.0) -> Callable[[Array], Array]:
    r"""Gradient flow on the quartic loss, $\dot\theta = -\eta\, z(\theta)\, Q\theta$.

    Along the flow $\dot z = -\eta (JJ^\top) z$ and $\dot J = -\eta z\, JQ$, so the residual keeps its sign.

    Args:
        Q: symmetric matrix, shape `(p, p)`.
        E: offset.
        lr: the factor $\eta$ of time.

    Returns:
        The field `theta -> d theta / dt`.
    """
    return lambda theta: -lr * residual(theta, Q, E) * (Q @ theta)


def modes(theta: Float[Array, " p"], spectrum: Float[Array, " p"], lr: Array | float = 1.0, E: Real = 0.0) -> Modes:
    r"""The rescaled modes of parameters in the eigenbasis of $Q$, $\tilde z = \eta z$ and
    $\tilde J_i = \sqrt\eta\,\omega_i\theta_i$.

    Args:
        theta: parameters in the eigenbasis, shape `(p,)`.
        spectrum: eigenvalues $\omega_i$ of $Q$, shape `(p,)`.
        lr: step size.
        E: offset, in the units of the parameters (its rescaled value is $\eta E$).

    Returns:
        The rescaled residual and Jacobian.
    """
    z = (jnp.sum(spectrum * theta**2) - E) / 2
    return Modes(z=lr * z, J=jnp.sqrt(lr) * spectrum * theta)


def quartic_modes(spectrum: Float[Array, " modes"]) -> Map:
    r"""Gradient descent on the quartic loss, in its eigenmodes and in units of the step size.

    $$\tilde z' = \tilde z - \tilde z\sum_i \tilde J_i^2
      + \tfrac12 \tilde z^2 \sum_i \omega_i \tilde J_i^2,\qquad
      \tilde J_i' = (1 - \tilde z\,\omega_i)\,\tilde J_i .$$

    This is exactly the iteration of the parameters, at a cost linear in the number of modes.

    Args:
        spectrum: eigenvalues $\omega_i$ of $Q$, shape `(modes,)`.

    Returns:
        A Map on [`Modes`][secant.theory.edge.quartic.Modes].

    Example:
        ```python
        import jax.numpy as jnp
        from secant.theory.edge.quartic import Modes, quartic_modes

        system = quartic_modes(jnp.array([1.0, -0.1]))
        system.step(Modes(z=jnp.array(-0.5), J=jnp.array([1.0, 0.4])))
        ```
    """

    def step(state: Modes) -> Modes:
        z, J = state
        kick = jnp.sum(spectrum * J**2)
        return Modes(z=z - z * jnp.sum(J**2) + z**2 * kick / 2, J=(1 - z * spectrum) * J)

    return Map(init=lambda state: Modes(*state), step=step)


def quartic_modes_flow(spectrum: Float[Array, " modes"]) -> Callable[[Modes], Modes]:
    r"""Gradient flow in the eigenmodes: $\dot{\tilde z} = -\tilde z \sum_i \tilde J_i^2$,
    $\dot{\tilde J_i} = -\tilde z\,\omega_i \tilde J_i$.

    A mode shrinks when $\omega_i\tilde z > 0$ and grows when $\omega_i\tilde z < 0$.

    Args:
        spectrum: eigenvalues $\omega_i$ of $Q$, shape `(modes,)`.

    Returns:
        The field on [`Modes`][secant.theory.edge.quartic.Modes].
    """
    return lambda state: Modes(z=-state.z * jnp.sum(state.J**2), J=-state.z * spectrum * state.J)


def moment(k: float | int, spectrum: Float[Array, "*#batch modes"], J: Float[Array, "*#batch modes"]) -> Array:
    r"""Moment $T(k) = \sum_i \omega_i^k \tilde J_i^2$ for any real $k$ (integer where an eigenvalue is
    negative).

    Args:
        k: order of the moment.
        spectrum: eigenvalues, shape `(modes,)`, or one set for each `J`.
        J: rescaled Jacobian components, shape `(..., modes)`.

    Returns:
        Shape `(...)`.
    """
    power = spectrum ** int(k) if float(k).is_integer() else spectrum**k
    return jnp.sum(power * J**2, axis=-1)


def moment_step(z: Real, T: Real, T_next: Real, T_second: Real) -> Array:
    r"""One step of one moment: $T(k)' = T(k) - \tilde z\,\bigl(2T(k+1) - \tilde z\, T(k+2)\bigr)$.

    It holds for every real $k$, and needs two more moments at each step.

    Args:
        z: rescaled residual.
        T: $T(k)$.
        T_next: $T(k+1)$.
        T_second: $T(k+2)$.

    Returns:
        $T(k)$ after the step, broadcast shape.
    """
    return jnp.asarray(T - z * (2 * T_next - z * T_second))


def quartic_moments(spectrum: Float[Array, " m"]) -> Map:
    r"""The closed recursion of $(\tilde z, T(0), \dots, T(m-1))$ for $m$ distinct eigenvalues.

    With $\prod_i (x - \omega_i) = x^m + c_{m-1}x^{m-1} + \dots + c_0$ the higher moments follow from
    $T(k+m) = -\sum_j c_j T(k+j)$, so the hierarchy of moments ends by itself.

    Args:
        spectrum: the distinct eigenvalues, shape `(m,)` with `m >= 2`.

    Returns:
        A Map on [`Moments`][secant.theory.edge.quartic.Moments].
    """
    spectrum = jnp.asarray(spectrum)
    m = spectrum.shape[0]
    if m < 2:
        raise ValueError(
            f"quartic_moments: `spectrum` has {m} eigenvalue, but the step needs T(0) and T(1). Pass at least "
            "two distinct eigenvalues, or use secant.theory.edge.single_eigenvalue for one."
        )
    lowest_first = jnp.poly(spectrum)[:0:-1]

    def step(state: Moments) -> Moments:
        z, T = state
        longer = jnp.concatenate([T, -(lowest_first @ T)[None]])
        longer = jnp.concatenate([longer, -(lowest_first @ longer[1:])[None]])
        return Moments(z=z - z * T[0] + z**2 * T[1] / 2, T=moment_step(z, T, longer[1:-1], longer[2:]))

    return Map(init=lambda state: Moments(*state), step=step)


def invariant(state: Modes, spectrum: Float[Array, " modes"]) -> Array:
    r"""Rescaled offset $\tilde E = T(-1) - 2\tilde z = \eta E$, conserved by gradient descent and by gradient
    flow.

    It needs nonzero eigenvalues on the support of the Jacobian. Its drift along a run measures the rounding
    error.

    Args:
        state: rescaled residual and Jacobian.
        spectrum: eigenvalues, shape `(modes,)`.

    Returns:
        Scalar array.
    """
    return moment(-1, spectrum, state.J) - 2 * jnp.asarray(state.z)


def equal_weight_curvature(z: Real, E: Real, weight: Real, omega: Real = 1.0) -> Array:
    r"""Curvature along gradient flow for eigenvalues $\{-\omega, \omega\}$ that start with equal weight.

    The product $\tilde J_+^2 \tilde J_-^2$ is constant and
    $\tilde J_+^2 - \tilde J_-^2 = \omega(2\tilde z + \tilde E)$, so
    $$T(0) = \sqrt{\omega^2 (2\tilde z + \tilde E)^2 + 4 w^2},\qquad w = \tilde J_+^2
      = \tilde J_-^2 \text{ at the start,}$$
    with $\tilde E = -2\tilde z_0$. The curvature grows at all times while $\tilde z$ shrinks: progressive sharpening.

    Args:
        z: rescaled residual now.
        E: rescaled offset, $-2\tilde z_0$.
        weight: the common starting weight $w$.
        omega: the eigenvalue $\omega > 0$.

    Returns:
        $T(0)$, broadcast shape.
    """
    return jnp.sqrt((omega * (2 * z + E)) ** 2 + 4 * jnp.asarray(weight) ** 2)


def edge_drift(z: Real, T0: Real, T1: Real, T2: Real) -> Array:
    r"""Two-step change of the distance to the edge, for any spectrum, on the nullcline of the residual.

    The residual's two-step nullcline through $(\tilde z, T(0)) = (0, 2)$ is
    $T(0) = 2 + T(1)\tilde z + O(\tilde z^3)$. On it $\hat y = T(0) - 2 - T(1)\tilde z$ changes by
    $$\hat y_{t+2} - \hat y_t = -\bigl(T(0)T(2) - T(1)^2\bigr)\tilde z^2 + O(\tilde z^3)
      = -T(0)^2\,\mathrm{Var}_J(\omega)\,\tilde z^2 + O(\tilde z^3) \le 0 :$$
    at the edge, sharpness always falls. The rate is the variance of the spectrum under the weights $\tilde J_i^2$.

    Args:
        z: rescaled residual.
        T0: $T(0)$.
        T1: $T(1)$.
        T2: $T(2)$.

    Returns:
        The leading drift, broadcast shape.
    """
    return jnp.asarray(-(T0 * T2 - T1**2) * z**2)


def edge_limit(T0: Real, T1: Real, T2: Real) -> Array:
    r"""The end of the rescaled curvature, $\eta\lambda_\infty - 2$, for any spectrum of small variance.

    Off the nullcline the drift is $-[V + 4T(2)\hat y]\tilde z^2$ with $V = T(0)T(2) - T(1)^2$,
    which vanishes at
    $$\hat y = -\frac{V}{4T(2)}
      = -\tfrac12\,\frac{\mathrm{Var}_J(\omega)}{\langle\omega^2\rangle_J}\quad\text{at } T(0) = 2 .$$
    The moments are those of the end point. For eigenvalues $\{1, -\epsilon\}$ the result is
    $-\tfrac\epsilon2(1 - \tilde E/2)$.

    Args:
        T0: $T(0)$.
        T1: $T(1)$.
        T2: $T(2)$.

    Returns:
        The predicted $\eta\lambda_\infty - 2$, broadcast shape.
    """
    variance = T2 / T0 - (T1 / T0) ** 2
    return jnp.asarray(-variance / (2 * T2 / T0))


def linear_two_step(curvature: Real, theta: Real) -> Array:
    r"""Two steps of gradient descent on a parabola:
    $\theta_{t+2} - \theta_t = \bigl((1-\lambda)^2 - 1\bigr)\theta_t = -\lambda(2-\lambda)\theta_t$.

    $\theta_{t+2} = (1-\lambda)^2\theta_t$ keeps its sign even where single steps oscillate, $1 < \lambda < 2$.

    Args:
        curvature: step size times curvature, $\lambda$.
        theta: coordinate.

    Returns:
        The two-step change, broadcast shape.
    """
    return jnp.asarray(-curvature * (2 - curvature) * theta)
