r"""Several samples in one dimension: two catapults that do not see each other.

With scalar inputs a frozen ReLU gate depends only on the sign of $x_i$, so the neural quadratic model is
$g_i = s_\pm x_i$ with one slope for the positive inputs and one for the negative. Its tangent kernel has rank
two, with the fixed eigenvectors $p_1 = x \odot 1_{x \ge 0}$ and $p_2 = x \odot 1_{x < 0}$, and along each of
them gradient descent is exactly the map of one sample. What lies orthogonal to both never changes.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from secant.dynamics import Map
from secant.theory.catapult.one_sample import Catapult, max_step

Loss = Literal["half_sum", "mean"]
"""`half_sum`: $\\frac12\\sum_i r_i^2$. `mean`: $\\frac1n\\sum_i r_i^2$."""


class Directions(NamedTuple):
    r"""The two directions of a one-dimensional data set.

    Attributes:
        masks: indicator of the positive and of the negative inputs.
        vectors: $p_1, p_2$, not normalised.
        squares: $\|p_1\|^2, \|p_2\|^2$.
        units: $\hat p_1, \hat p_2$; zero where a sign does not occur.
    """

    masks: Float[Array, "2 n"]
    vectors: Float[Array, "2 n"]
    squares: Float[Array, "2"]
    units: Float[Array, "2 n"]


class SamplesState(NamedTuple):
    r"""State of the exact matrix dynamics.

    Attributes:
        residual: $g - y$.
        kernel: tangent kernel $K$.
    """

    residual: Float[Array, "n"]
    kernel: Float[Array, "n n"]


def directions(x: Float[Array, "n"]) -> Directions:
    r"""Split scalar inputs by sign: $p_1 = x \odot 1_{x \ge 0}$, $p_2 = x \odot 1_{x < 0}$."""
    x = jnp.asarray(x)
    masks = jnp.stack([x >= 0, x < 0]).astype(x.dtype)
    vectors = masks * x
    squares = jnp.sum(vectors**2, axis=1)
    units = vectors / jnp.sqrt(jnp.where(squares > 0, squares, 1.0))[:, None]
    return Directions(masks, vectors, squares, units)


def half_sum_lr(lr: ArrayLike, samples: int, loss: Loss = "half_sum") -> Array:
    r"""The step size for $\frac12\sum r^2$ that moves the parameters as `lr` does for `loss`.

    $\eta$ itself for `half_sum`, $2\eta/n$ for `mean`.
    """
    if loss == "half_sum":
        return jnp.asarray(lr)
    if loss == "mean":
        return 2 * jnp.asarray(lr) / samples
    raise ValueError(f"half_sum_lr: `loss` is {loss!r}. Pass 'half_sum' (1/2 sum r^2) or 'mean' (1/n sum r^2).")


def critical_lrs(eigenvalues: Float[Array, "..."], samples: int, loss: Loss = "half_sum") -> Float[Array, "..."]:
    r"""Step size at which each kernel eigendirection becomes unstable.

    $2/\lambda_i$ for `half_sum`, $n/\lambda_i$ for `mean`.
    """
    return 2 / jnp.asarray(eigenvalues) / half_sum_lr(1.0, samples, loss)


def kernel_from_slopes(x: Float[Array, "n"], slopes: Float[Array, "2"]) -> Float[Array, "n n"]:
    r"""Tangent kernel from its two slopes, $K = \kappa_+ p_1 p_1^\top + \kappa_- p_2 p_2^\top$.

    $\kappa_\pm = \frac1m\sum_k (u_k^2 + v_k^2)\,1_\pm$, summed over the neurons with $u_k(0) \ge 0$ and $u_k(0) < 0$.
    """
    vectors = directions(x).vectors
    return jnp.einsum("k,ki,kj->ij", slopes, vectors, vectors)


def slopes_from_weights(
    u: Float[Array, "m"], v: Float[Array, "m"], start: Float[Array, "m"]
) -> tuple[Float[Array, "2"], Float[Array, "2"]]:
    r"""The four numbers that describe the model: two slopes of the output and two of the kernel.

    Args:
        u: inner weights.
        v: outer weights.
        start: inner weights at initialisation; their signs are the gates.

    Returns:
        The slopes $s_\pm = \frac{1}{\sqrt m}\sum_k u_k v_k 1_\pm$ of the output and
        $\kappa_\pm = \frac1m\sum_k (u_k^2 + v_k^2) 1_\pm$ of the kernel.
    """
    gates = jnp.stack([start >= 0, start < 0]).astype(u.dtype)
    width = u.shape[0]
    return gates @ (u * v) / jnp.sqrt(width), gates @ (u**2 + v**2) / width


def samples_catapult(x: Float[Array, "n"], y: Float[Array, "n"], lr: ArrayLike, width: ArrayLike) -> Map:
    r"""Residuals and tangent kernel under gradient descent on $\frac12\sum r^2$, exactly.

    With $Q_\pm = \langle r \odot m_\pm, g \odot m_\pm\rangle$,
    $k_\pm = (r \odot m_\pm)^\top K (r \odot m_\pm)$ and the unnormalised $p_1, p_2$,

    $$r' = \Big(I - \eta K + \tfrac{\eta^2}{m}\big(Q_+ p_1p_1^\top + Q_- p_2p_2^\top\big)\Big) r,$$
    $$K' = K + \tfrac{\eta^2}{m}\big(k_+ p_1p_1^\top + k_- p_2p_2^\top\big)
      - \tfrac{4\eta}{m}\big(Q_+ p_1p_1^\top + Q_- p_2p_2^\top\big).$$

    `init` takes the pair (residual, kernel); the state is a
    [`SamplesState`][secant.theory.catapult.several_samples.SamplesState].

    Args:
        x: scalar inputs.
        y: targets.
        lr: step size for the loss $\frac12\sum r^2$ (see
            [`half_sum_lr`][secant.theory.catapult.several_samples.half_sum_lr]).
        width: $m$.
    """
    split = directions(x)
    y, lr = jnp.asarray(y), jnp.asarray(lr)

    def step(state: SamplesState) -> SamplesState:
        residual, kernel = state
        parts = residual * split.masks
        cross = jnp.sum(parts * (residual + y), axis=1)
        bend = jnp.einsum("ki,ij,kj->k", parts, kernel, parts)
        along = split.vectors @ residual
        moved = residual - lr * kernel @ residual + lr**2 / width * (cross * along) @ split.vectors
        weights = (lr**2 * bend - 4 * lr * cross) / width
        change = jnp.einsum("k,ki,kj->ij", weights, split.vectors, split.vectors)
        return SamplesState(moved, kernel + change)

    return Map(init=lambda start: SamplesState(jnp.asarray(start[0]), jnp.asarray(start[1])), step=step)


def reduce_directions(
    residual: Float[Array, "n"],
    kernel: Float[Array, "n n"],
    x: Float[Array, "n"],
    y: Float[Array, "n"],
    lr: ArrayLike,
    width: ArrayLike,
) -> tuple[Catapult, Float[Array, "2"]]:
    r"""The two one-sample states hidden in the residuals and the kernel.

    With unit vectors, $r_i = \langle g - y, \hat p_i\rangle$ and $y_i = \langle y, \hat p_i\rangle$,

    $$a_i = \eta\sqrt{\|p_i\|^2/m}\;r_i, \quad b_i = \eta\sqrt{\|p_i\|^2/m}\;y_i, \quad v_i = \eta\lambda_i,$$

    and each pair follows [`step`][secant.theory.catapult.one_sample.step] on its own.

    Returns:
        The states, arrays of length two, and the rescaled targets $b_i$.
    """
    split = directions(x)
    scale = jnp.asarray(lr) * jnp.sqrt(split.squares / width)
    eigenvalues = jnp.einsum("ki,ij,kj->k", split.units, kernel, split.units)
    return Catapult(scale * (split.units @ residual), jnp.asarray(lr) * eigenvalues), scale * (split.units @ y)


def projected_losses(residual: Float[Array, "n"], x: Float[Array, "n"]) -> Float[Array, "3"]:
    r"""The loss $\frac12\|r\|^2$ along $\hat p_1$, along $\hat p_2$, and orthogonal to both.

    Gradient descent conserves the last.
    """
    along = directions(x).units @ residual
    total = jnp.sum(residual**2) / 2
    return jnp.concatenate([along**2 / 2, jnp.array([total - jnp.sum(along**2) / 2])])


def max_lr_samples(
    residual: Float[Array, "n"],
    kernel: Float[Array, "n n"],
    x: Float[Array, "n"],
    y: Float[Array, "n"],
    width: ArrayLike,
    loss: Loss = "half_sum",
) -> Float[Array, "2"]:
    r"""The exact maximal step size of each direction; the smaller one bounds gradient descent.

    The directions are decoupled, so this is [`max_step`][secant.theory.catapult.one_sample.max_step] twice, with
    $\|p_i\|^2$ for the size of the input. It is infinite for a direction in which no sample lies.
    """
    split = directions(x)
    eigenvalues = jnp.einsum("ki,ij,kj->k", split.units, kernel, split.units)
    targets = split.units @ y
    outputs = split.units @ residual + targets
    steps = max_step(outputs, eigenvalues, width, targets, split.squares)
    steps = jnp.where(split.squares > 0, steps, jnp.inf)
    return steps / half_sum_lr(1.0, jnp.asarray(x).shape[0], loss)
