r"""Models quadratic in their parameters, with the exact update of residual and tangent kernel in one step.

There are three models:

* the quadratic model of a two-layer ReLU network, a bilinear function behind frozen gates;
* the general quadratic model $g = w^\top\phi + \frac{\gamma}{2} w^\top\Sigma w$;
* the general model without its linear part; the two-layer linear network is an example.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

from secant.dynamics import Map


class TwoLayer(NamedTuple):
    r"""Parameters of a two-layer network with one output.

    Attributes:
        u: inner weights, one row per neuron.
        v: outer weights.
    """

    u: Float[Array, "m d"]
    v: Float[Array, "m"]


class OutputCurvature(NamedTuple):
    r"""Output $g$ and tangent kernel $\lambda$ of a model on one sample."""

    output: Float[Array, "..."]
    curvature: Float[Array, "..."]


def two_layer_init(key: PRNGKeyArray, width: int, dim: int) -> TwoLayer:
    r"""Random weights of a two-layer network, $u_i \sim \mathcal N(0, I_d)$ and $v_i$ uniform on $\{-1, +1\}$."""
    inner, outer = jax.random.split(key)
    u = jax.random.normal(inner, (width, dim))
    return TwoLayer(u, jax.random.rademacher(outer, (width,)).astype(u.dtype))


def two_layer(params: TwoLayer, x: Float[Array, "*n d"]) -> Float[Array, "*n"]:
    r"""Two-layer ReLU network, $f = \frac{1}{\sqrt m}\sum_i v_i\,\mathrm{relu}\big(u_i^\top x/\sqrt d\big)$.

    Args:
        params: weights.
        x: one input or a stack of them.
    """
    width, dim = params.u.shape
    return jax.nn.relu(x @ params.u.T) @ params.v / jnp.sqrt(width * dim)


def gates(u: Float[Array, "m d"], x: Float[Array, "*n d"]) -> Float[Array, "*n m"]:
    r"""Which neurons are on, $G_i(x) = 1\{u_i^\top x \ge 0\}$."""
    return (x @ u.T >= 0).astype(u.dtype)


def gated_bilinear(params: TwoLayer, on: Float[Array, "*n m"], x: Float[Array, "*n d"]) -> Float[Array, "*n"]:
    r"""The quadratic model of the two-layer ReLU network: the network with its gates frozen.

    $g(u, v; x) = \frac{1}{\sqrt{md}}\sum_i G_i(x)\,v_i\,u_i^\top x$ with $G_i$ taken at initialisation. It
    equals the second-order Taylor polynomial of [`two_layer`][secant.theory.regression.quadratic_model.two_layer]
    there, since $\partial^2 f/\partial u_i\partial v_i$ is the only second derivative.

    Args:
        params: current weights.
        on: gates at initialisation, from [`gates`][secant.theory.regression.quadratic_model.gates].
        x: one input or a stack of them.

    Example:
        ```python
        import jax, jax.numpy as jnp
        from secant.theory.regression.quadratic_model import gated_bilinear, gates, two_layer, two_layer_init

        x = jnp.array([1.0, -0.5])
        params = two_layer_init(jax.random.key(0), width=64, dim=2)
        gated_bilinear(params, gates(params.u, x), x) - two_layer(params, x)   # 0 at initialisation
        ```
    """
    width, dim = params.u.shape
    return (x @ params.u.T * on) @ params.v / jnp.sqrt(width * dim)


def gated_curvature(params: TwoLayer, on: Float[Array, "m"], x: Float[Array, "d"]) -> Float[Array, ""]:
    r"""Tangent kernel of the gated model on one sample.

    $\lambda = \frac{1}{md}\sum_i G_i\big(v_i^2\|x\|^2 + (u_i^\top x)^2\big)$.
    """
    width, dim = params.u.shape
    return jnp.sum(on * (params.v**2 * jnp.sum(x**2) + (params.u @ x) ** 2)) / (width * dim)


def imbalance(params: TwoLayer, on: Float[Array, "m"], x: Float[Array, "d"]) -> Float[Array, ""]:
    r"""Difference of the layers' gradients, $D = \|\nabla_u g\|^2 - \|\nabla_v g\|^2$.

    Each step of gradient descent multiplies $D$ by $1 - c\,\eta^2(g - y)^2$.
    """
    width, dim = params.u.shape
    return jnp.sum(on * (params.v**2 * jnp.sum(x**2) - (params.u @ x) ** 2)) / (width * dim)


def quadratic_output(
    w: Float[Array, "p"], features: Float[Array, "n p"], second: Float[Array, "n p p"], gamma: ArrayLike = 1.0
) -> Float[Array, "n"]:
    r"""The general quadratic model, $g_i = w^\top\phi_i + \frac{\gamma}{2}\,w^\top\Sigma_i w$.

    Args:
        w: parameters.
        features: $\phi_i$, one row per sample.
        second: $\Sigma_i$, symmetric.
        gamma: $\gamma$; the model is linear at zero.
    """
    return features @ w + gamma / 2 * jnp.einsum("nij,i,j->n", second, w, w)


def quadratic_jacobian(
    w: Float[Array, "p"], features: Float[Array, "n p"], second: Float[Array, "n p p"], gamma: ArrayLike = 1.0
) -> Float[Array, "n p"]:
    r"""Jacobian of the general quadratic model, $J_i = \phi_i + \gamma\,\Sigma_i w$."""
    return features + gamma * second @ w


def pull(
    residual: Float[Array, "n"], jacobian: Float[Array, "n p"], hessians: Float[Array, "n p p"]
) -> Float[Array, "n p"]:
    r"""How the gradient turns each sample's feature, $G_i = H_i J^\top r$.

    $H_i$ is the second derivative of output $i$ in the parameters.
    """
    return hessians @ (residual @ jacobian)


def residual_update(
    residual: Float[Array, "n"], jacobian: Float[Array, "n p"], turned: Float[Array, "n p"], lr: ArrayLike
) -> Float[Array, "n"]:
    r"""Residual after a step on $\frac12\|r\|^2$, exactly: $r' = \big(I - \eta K + \frac{\eta^2}{2} G J^\top\big)\,r$.

    Args:
        residual: $r$.
        jacobian: $J$.
        turned: $G$, from [`pull`][secant.theory.regression.quadratic_model.pull].
        lr: $\eta$.
    """
    gradient = residual @ jacobian
    return residual - lr * jacobian @ gradient + lr**2 / 2 * turned @ gradient


def kernel_update(jacobian: Float[Array, "n p"], turned: Float[Array, "n p"], lr: ArrayLike) -> Float[Array, "n n"]:
    r"""Tangent kernel after a step, exactly: $K' = K - \eta\,(GJ^\top + JG^\top) + \eta^2\,GG^\top$.

    The Jacobian moves to $J - \eta G$ because the model is quadratic, so $K' = (J - \eta G)(J - \eta G)^\top$.
    """
    cross = turned @ jacobian.T
    return jacobian @ jacobian.T - lr * (cross + cross.T) + lr**2 * turned @ turned.T


def homogeneous_catapult(lr: ArrayLike, gamma: ArrayLike, size: ArrayLike = 1.0) -> Map:
    r"""The quadratic model without linear part, $g = \frac{\gamma}{2}w^\top\Sigma w$, on one sample, target zero.

    If $\Sigma^3 = s\,\Sigma$ (for instance $\Sigma^2 = s I$) output and tangent kernel obey closed equations:

    $$g' = (1 - \eta\lambda + \gamma^2\eta^2 s\,g^2)\,g,
      \qquad \lambda' = \lambda - \eta\gamma^2 s\,g^2\,(4 - \eta\lambda).$$

    It is the map of [`catapult`][secant.theory.catapult.one_sample.catapult] with $\gamma^2$ in the place of $1/m$ and
    $y = 0$: it catapults for $2/\lambda_0 < \eta < 4/\lambda_0$.

    `init` takes the pair (output, curvature); the state is an
    [`OutputCurvature`][secant.theory.regression.quadratic_model.OutputCurvature].

    Args:
        lr: $\eta$ for the loss $\frac12 g^2$.
        gamma: $\gamma$.
        size: $s$; $\|x\|^2$ for the two-layer linear network.
    """

    rate = jnp.asarray(lr)

    def step(state: OutputCurvature) -> OutputCurvature:
        output, curvature = state
        push = jnp.square(jnp.asarray(gamma) * output) * jnp.asarray(size)
        growth = 1 - rate * curvature + rate**2 * push
        return OutputCurvature(growth * output, curvature - rate * push * (4 - rate * curvature))

    return Map(init=lambda start: OutputCurvature(jnp.asarray(start[0]), jnp.asarray(start[1])), step=step)


def linear_network(u: Float[Array, "m d"], v: Float[Array, "m"], x: Float[Array, "d"]) -> Float[Array, ""]:
    r"""Two-layer linear network, $f = \frac{1}{\sqrt m}\,v^\top U x$."""
    return v @ (u @ x) / jnp.sqrt(v.shape[0])


def linear_network_matrix(x: Float[Array, "d"], width: int) -> Float[Array, "p p"]:
    r"""The matrix that makes the two-layer linear network a quadratic model without linear part.

    With $w = (\mathrm{vec}\,U, v)$, neuron by neuron, $\gamma = 1/\sqrt m$ and

    $$\Sigma = \begin{pmatrix} 0 & I_m \otimes x \\ I_m \otimes x^\top & 0 \end{pmatrix}
      \in \mathbb R^{(md + m)\times(md + m)},$$

    $f = \frac{\gamma}{2}w^\top\Sigma w$. It satisfies $\Sigma^3 = \|x\|^2\,\Sigma$, and
    $\Sigma^2 = \|x\|^2 I$ only for $d = 1$.
    """
    x = jnp.asarray(x)
    corner = jnp.kron(jnp.eye(width, dtype=x.dtype), x[:, None])
    rows, cols = corner.shape
    top = jnp.concatenate([jnp.zeros((rows, rows), x.dtype), corner], axis=1)
    bottom = jnp.concatenate([corner.T, jnp.zeros((cols, cols), x.dtype)], axis=1)
    return jnp.concatenate([top, bottom])
