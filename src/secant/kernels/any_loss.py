r"""Training a network of infinite width on any loss: $\dot f = -\Theta\,\partial L/\partial f$, integrated in time."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from secant import losses
from secant.dynamics import Outcome, flow
from secant.kernels.predict import checked_pair


class Outputs(NamedTuple):
    """Outputs along the time of training.

    Attributes:
        times: shape `(times,)`.
        train: on the samples, shape `(times, n)` or `(times, n, outputs)`.
        test: elsewhere, shape `(times, m)` or `(times, m, outputs)`; None if nothing else was asked for.
        loss: on the samples, shape `(times,)`.
    """

    times: np.ndarray
    train: np.ndarray
    test: np.ndarray | None
    loss: np.ndarray


def training_on(
    loss: Any,
    kernel: ArrayLike,
    y: Any,
    times: ArrayLike,
    *,
    between: Float[Array, "m n"] | None = None,
    start: Any = 0.0,
    start_test: Any = 0.0,
    rtol: float | None = None,
) -> Outputs:
    r"""Gradient flow of a wide network on any loss of its outputs.

    Outputs on the samples move by $\dot f = -\Theta\,\nabla L(f)$ and elsewhere by
    $\dot f(x) = -\Theta(x, X)\,\nabla L(f)$, with the kernel as it is at the start. For the squared loss
    [`training`][secant.kernels.training] has both in closed form.

    Args:
        loss: its name, or a [`Loss`][secant.losses.Loss], as everywhere.
        kernel: tangent kernel among the samples, shape `(n, n)`.
        y: targets, shape `(n,)` or `(n, outputs)`.
        times: rising times of at least 0 at which outputs are wanted.
        between: kernel between other inputs and the samples.
        start: outputs on the samples at the start.
        start_test: outputs elsewhere at the start.
        rtol: relative tolerance of the integration; by default 1e-8 in float64 and 1e-5 in float32.

    Example:
        ```python
        import jax
        import jax.numpy as jnp
        import secant as sc
        from secant.kernels import training_on

        net = sc.nets.mlp([64, 64], activation="relu", bias=True)
        x = jax.random.normal(jax.random.key(0), (8, 3))
        labels = jnp.eye(2)[(x[:, 0] > 0).astype(int)]  # two classes
        found = training_on("cross_entropy", sc.kernel(net, x).ntk, labels, [0.0, 1.0, 100.0])
        print(found.train.shape, bool(found.loss[0] > found.loss[1] > found.loss[2]))
        ```
        ```text
        (3, 8, 2) True
        ```
    """
    theta, y = checked_pair("training_on", kernel, y)
    found = losses.get(loss)
    times = np.asarray(times, float)
    if times.ndim != 1 or not len(times) or times[0] < 0 or (np.diff(times) <= 0).any() or not np.isfinite(times).all():
        raise ValueError(f"training_on: `times` must be rising numbers of at least 0, got {times}.")
    if between is not None and (jnp.ndim(between) != 2 or jnp.shape(between)[1] != len(theta)):
        raise ValueError(
            f"training_on: `between` must have shape (m, {len(theta)}), one column a sample, got {jnp.shape(between)}."
        )
    state = {"train": jnp.broadcast_to(jnp.asarray(start, theta.dtype), y.shape)}
    if between is not None:
        elsewhere = (len(between), *y.shape[1:])
        state["test"] = jnp.broadcast_to(jnp.asarray(start_test, theta.dtype), elsewhere)

    def field(state: dict[str, Array]) -> dict[str, Array]:
        pull = -jax.grad(found)(state["train"], y)
        return {"train": theta @ pull} | ({} if between is None else {"test": between @ pull})

    rtol = (1e-8 if theta.dtype == jnp.float64 else 1e-5) if rtol is None else rtol
    asked = np.concatenate([times[:1] * 0, times]) if times[0] > 0 else times
    if len(asked) == 1:  # the start alone
        asked = np.array([0.0, 1e-3])
    run = flow(
        field,
        state,
        float(asked[-1]),
        probes={
            **{name: (lambda state, name=name: state[name]) for name in state},
            "loss": lambda state: found(state["train"], y),
        },
        samples=asked,
        rtol=rtol,
        atol=rtol / 100,
    )
    if int(run.dataset.outcome) == Outcome.DIVERGED:
        raise ValueError("training_on: the outputs do not stay finite. Use smaller times, or a positive kernel.")
    kept = slice(1, None) if times[0] > 0 else slice(0, len(times))
    parts = {name: np.asarray(run.dataset[name])[kept] for name in (*state, "loss")}
    return Outputs(times, parts["train"], parts.get("test"), parts["loss"])
