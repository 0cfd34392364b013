"""Images of two classes on the sphere, and a wide ReLU layer with fixed output signs that learns them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from secant import data
from secant.core.device import jit
from secant.data import Split, Task


def unit_task(name: str, classes: tuple[int, ...], samples: int, test_samples: int, seed: int) -> Task:
    """Two classes of a data set as +1 and -1, with every input divided by its length, and a limit of test samples."""
    task = data.load(name, classes=classes, samples=samples, scaling="none", seed=seed, dtype=np.float64)
    test = Split(task.test.x[:test_samples], task.test.y[:test_samples])
    train, test = (Split(part.x / np.linalg.norm(part.x, axis=1, keepdims=True), part.y) for part in (task.train, test))
    return Task(train, test, {**task.recipe, "test_samples": len(test)})


def limit_kernel(x: np.ndarray, other: np.ndarray | None = None) -> np.ndarray:
    r"""The kernel $H^* = x\cdot x'\,(\pi - \arccos x\cdot x')/(2\pi)$ of unit rows; exactly $\tfrac12$ if equal."""
    rho = np.clip(x @ (x if other is None else other).T, -1, 1)
    if other is None:
        np.fill_diagonal(rho, 1.0)
    return rho * (np.pi - np.arccos(rho)) / (2 * np.pi)


def pairs(rng: np.random.Generator, width: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Hidden weights and signs. Every neuron comes twice with opposite signs, so that the network starts at zero."""
    half = rng.normal(size=(width // 2, features))
    return np.concatenate([half, half]), np.repeat([1.0, -1.0], width // 2)


def descend(
    w: np.ndarray, a: np.ndarray, x: np.ndarray, labels: np.ndarray, rate: float, steps: int, test: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""Gradient descent of the first layer on $\tfrac12\sum_i(u_i - y_i)^2$, for several sets of labels at once.

    Weights move only within the span of the data. Pre-activations therefore follow from products of inputs, and the
    cost of a step does not depend on the number of features.

    Returns:
        Residuals at the start and after every step, `(steps + 1, labels, samples)`, and outputs on `test` one step
        later, `(labels, tests)`.
    """
    found = _descend(w @ x.T, w @ test.T, a, x @ x.T, x @ test.T, labels, rate, steps)
    return np.asarray(found[0]), np.asarray(found[1])


def _run(h: Any, h_test: Any, a: Any, gram: Any, cross: Any, labels: Any, rate: Any, steps: int) -> Any:
    root = jnp.sqrt(len(a))

    def one(y: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(carry: tuple[jax.Array, jax.Array], _: None) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
            h, total = carry
            r = a @ jnp.maximum(h, 0) / root - y
            slope = rate / root * jnp.where(h > 0, a[:, None], 0) * r
            return (h - slope @ gram, total + slope), r

        (_, total), residuals = jax.lax.scan(step, (h, jnp.zeros_like(h)), None, length=steps + 1)
        return residuals, a @ jnp.maximum(h_test - total @ cross, 0) / root

    residuals, outputs = jax.lax.map(one, labels)
    return residuals.swapaxes(0, 1), outputs


_descend = jit(_run, long=True, static_argnums=7)
