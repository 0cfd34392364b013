r"""Two-layer networks on patches, their quadratic models, and what a step does along one direction of the kernel.

$$f(x) = \frac{1}{\sqrt{qm}}\sum_{p \le q}\sum_{c \le m} v_{pc}\,\mathrm{relu}\big(u_c^\top x_p/\sqrt k\big)$$

An input has $q$ patches of $k$ numbers. One patch gives a fully connected network; the surroundings of every pixel give
a convolutional network. With its gates frozen at the start, the network becomes its quadratic model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float

from secant import data as tasks
from secant.dynamics import Probe, Stop, simulate
from secant.optim import gradient_descent

KINDS = ("quadratic", "network")
"""The two models: a network with the gates of its start, and with its own gates."""


class Layers(NamedTuple):
    """The weights: arrays of JAX or, before a run, of NumPy.

    Attributes:
        u: inner weights, which all patches share, `(k, m)`.
        v: outer weights, `(q, m)`.
    """

    u: Any
    v: Any


class Trial(NamedTuple):
    """An untrained network and its data: arrays of JAX or, before a run, of NumPy.

    Attributes:
        start: its weights.
        x: inputs, `(n, q, k)`.
        y: labels.
        lr: a step size for half the sum of squares.
    """

    start: Layers
    x: Any
    y: Any
    lr: Any


class Last(NamedTuple):
    """The memory of a look: the direction followed, its eigenvalue, and the residual along it."""

    vector: Float[Array, "n"]
    value: Float[Array, ""]
    along: Float[Array, ""]


def signed_images(
    name: str, classes: tuple[int, int], samples: int, seed: int, *, flat: bool = True
) -> tuple[Float[np.ndarray, "n ..."], Float[np.ndarray, "n"]]:
    """Images of two classes in units of their root mean square, not centred, with signs as labels."""
    task = tasks.load(
        name, classes=classes, samples=samples, test_samples=1, scaling="none", flat=flat, labels="signs", seed=seed
    )
    x, y = (np.asarray(part, float) for part in task.train)
    return x / np.sqrt(np.mean(x**2)), y.reshape(-1)


def spanned(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 1 k"]:
    r"""Inputs as one patch each, in their own span: $k = \min(n, d)$ numbers, scaled so that they act like all $d$."""
    left, sizes, _ = np.linalg.svd(x, full_matrices=False)
    return (left * sizes * np.sqrt(len(sizes) / x.shape[1]))[:, None]


def draw_trial(
    x: Float[np.ndarray, "n q k"], y: Float[np.ndarray, "n"], width: int, ratio: float, random: np.random.Generator
) -> Trial:
    """A random network on some data, with `ratio` times its critical step size."""
    # The draw takes place on the host, so that nothing is compiled.
    start = Layers(random.normal(size=(x.shape[2], width)), random.normal(size=(x.shape[1], width)))
    top = np.linalg.eigvalsh(tangent_kernel(start, gates(start, x), x))[-1]
    return Trial(start, x, y, np.asarray(2 * ratio / top))


def gates(params: Layers, x: Any) -> Any:
    """The gates: which neurons are active at each patch, `(n, q, m)`."""
    return (x @ params.u >= 0).astype(params.u.dtype)


def outputs(params: Layers, on: Float[Array, "n q m"], x: Float[Array, "n q k"]) -> Float[Array, "n"]:
    """The outputs of the model behind given gates."""
    return jnp.einsum("nqm,qm->n", x @ params.u * on, params.v) / np.sqrt(x.shape[2] * params.v.size)


def tangent_kernel(params: Layers, on: Any, x: Any) -> Any:
    """Tangent kernel of inner and outer weights behind given gates, `(n, n)`. NumPy arrays give a NumPy array."""
    n = len(x)
    outer, pull = (x @ params.u * on).reshape(n, -1), on * params.v
    if x.shape[1] == 1:  # no Jacobian is needed
        inner = (x[:, 0] @ x[:, 0].T) * (pull[:, 0] @ pull[:, 0].T)
    else:
        jacobian = (x.swapaxes(1, 2) @ pull).reshape(n, -1)
        inner = jacobian @ jacobian.T
    return (inner + outer @ outer.T) / (x.shape[2] * params.v.size)


def follow(trials: Trial, steps: int) -> xr.Dataset:
    r"""Gradient descent, and its remainders along the first eigenvector of the tangent kernel, followed by overlap.

    With $p$ the eigenvector at a step, $\lambda$ its eigenvalue, $r$ the residual and a prime for the next step,

    - `rest_f`: $\langle p, r'\rangle/\langle p, r\rangle - 1 + \eta\lambda$ and `rest_k`: $p^\top(K - K')p$, measured;
    - with the closed forms of a quadratic model, $R_f = \frac{\eta^2}2GJ^\top$ and
      $R_K = \eta(GJ^\top + JG^\top) - \eta^2GG^\top$, `closed_f`: $p^\top R_fp$, `closed_whole`:
      $p^\top R_fr/\langle p, r\rangle$ and `closed_k`: $p^\top R_Kp$.

    Args:
        trials: the trials, stacked along a first axis.
        steps: how many steps.

    Returns:
        A dataset over `model`, `trial` and `step`. Beside the remainders it has `loss`, `within` (its part along $p$),
        `along` $= \langle p, r\rangle$, `label` $= \langle p, y\rangle$, `curvature` $= \lambda$, the `largest`
        eigenvalue of all, and the `overlap` of $p$ with the $p$ of the step before.
    """

    def gates_at(params: Layers, trial: Trial, frozen: Array) -> Array:
        return jnp.where(frozen, gates(trial.start, trial.x), gates(params, trial.x))

    def loss(params: Layers, trial: Trial, frozen: Array) -> Array:
        return jnp.sum((outputs(params, gates_at(params, trial, frozen), trial.x) - trial.y) ** 2) / 2

    def look(params: Layers, last: Last, trial: Trial, frozen: Array) -> tuple[dict[str, Array], Last]:
        on = gates_at(params, trial, frozen)
        kernel, residual = tangent_kernel(params, on, trial.x), outputs(params, on, trial.x) - trial.y
        values, vectors = jnp.linalg.eigh(kernel)
        # The direction is found by overlap, not by rank: when two eigenvalues cross, it keeps its eigenvector.
        overlaps = jnp.abs(last.vector @ vectors)
        chosen = jnp.where(jnp.all(last.vector == 0), len(values) - 1, jnp.argmax(overlaps))
        vector, value = vectors[:, chosen], values[chosen]
        along = vector @ residual
        gradient = jax.vjp(lambda p: outputs(p, on, trial.x), params)[1](residual)[0]
        # (J^T p, G^T p): the gradient along p, and how it turns along the gradient of the loss.
        towards, turned = jax.jvp(jax.grad(lambda p: vector @ outputs(p, on, trial.x)), (params,), (gradient,))
        bend, lr = _dot(turned, towards), trial.lr
        record = {
            "value": residual @ residual / 2,
            "within": along**2 / 2,
            "along": along,
            "label": vector @ trial.y,
            "curvature": value,
            "largest": values[-1],
            "overlap": overlaps[chosen],
            "closed_f": lr**2 / 2 * bend,
            "closed_whole": lr**2 / 2 * _dot(turned, gradient) / along,
            "closed_k": 2 * lr * bend - lr**2 * _dot(turned, turned),
            "rest_f": last.vector @ residual / last.along - 1 + lr * last.value,
            "rest_k": last.value - last.vector @ kernel @ last.vector,
        }
        return record, Last(vector, value, along)

    def nothing(params: Layers) -> Last:
        empty = jnp.zeros(trials.y.shape[1], params.u.dtype)
        return Last(empty, empty[0], empty[0] + 1)

    records = simulate(
        lambda frozen, trial: gradient_descent(lambda p: loss(p, trial, frozen), trial.lr),
        lambda trial: trial.start,
        steps,
        over={"frozen": np.array([kind == "quadratic" for kind in KINDS]), "trial": trials},
        probes={"loss": Probe(look, memory=nothing)},
        stop=Stop(diverged=lambda p, trial, frozen: loss(p, trial, frozen) > 1e12),
        label="remainders",
    ).dataset
    found = records.rename({name: str(name).removeprefix("loss_") for name in records if str(name).startswith("loss_")})
    found = found.rename(frozen="model").assign_coords(model=list(KINDS))
    # A look sees the step that led to it, but its remainders belong beside the records of the step before.
    return found.assign({name: found[name].shift(step=-1) for name in ("rest_f", "rest_k")})


def _dot(left: Any, right: Any) -> Array:
    return sum((jnp.vdot(a, b) for a, b in zip(left, right, strict=True)), jnp.zeros(()))
