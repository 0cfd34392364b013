r"""Scale-invariant losses of a few weights, in closed form, and gradient descent with weight decay on them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from secant.theory.normalization.scale_invariance import sphere_smoothness


class Loss(Protocol):
    """A scale-invariant loss. Weights are the last axis; the other axes hold many points at once."""

    def value(self, w: np.ndarray) -> np.ndarray:
        """L."""
        ...

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """Its gradient."""
        ...

    @property
    def smoothness(self) -> float:
        r"""$\rho$, the largest curvature on the unit sphere."""
        ...


@dataclass(frozen=True)
class Quotient:
    r"""Rayleigh's quotient, $\sum_i\lambda_iw_i^2/|w|^2$, with $\rho = 2(\lambda_{\max} - \lambda_{\min})$."""

    spectrum: np.ndarray

    def value(self, w: np.ndarray) -> np.ndarray:
        """L."""
        return (self.spectrum * w**2).sum(-1) / (w**2).sum(-1)

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """Its gradient."""
        square = (w**2).sum(-1, keepdims=True)
        return 2 * (self.spectrum - self.value(w)[..., None]) * w / square

    @property
    def smoothness(self) -> float:
        r"""$\rho$."""
        return float(2 * np.ptp(self.spectrum))


@dataclass(frozen=True)
class Cosine:
    r"""The loss $b\cdot w/|w|$, with $\rho = 2|b|/\sqrt3$, attained at an angle of cosine $1/\sqrt3$ from $b$."""

    direction: np.ndarray

    def value(self, w: np.ndarray) -> np.ndarray:
        """L."""
        return w @ self.direction / np.linalg.norm(w, axis=-1)

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """Its gradient."""
        size = np.linalg.norm(w, axis=-1, keepdims=True)
        return (self.direction - self.value(w)[..., None] * w / size) / size

    @property
    def smoothness(self) -> float:
        r"""$\rho$."""
        return 2 * float(np.linalg.norm(self.direction)) / math.sqrt(3)


class Neuron:
    r"""The logistic loss of a neuron behind a batch norm, $a_i = w\cdot x_i/\sqrt{w\cdot\Sigma w}$, labels $\pm1$.

    Args:
        x: inputs, one row a sample; their mean is subtracted.
        y: labels.
    """

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = x - x.mean(0), y
        self._smoothness: float | None = None

    def value(self, w: np.ndarray) -> np.ndarray:
        """L."""
        return np.logaddexp(0, -self.y * self._normed(w)[0]).mean(-1)

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """Its gradient."""
        a, size = self._normed(w)
        pull = -self.y * np.exp(-np.logaddexp(0, self.y * a)) / len(self.y)
        return (pull @ self.x - (pull * a).sum(-1, keepdims=True) * (a @ self.x) / len(self.y)) / size

    def _normed(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        z = w @ self.x.T
        size = np.sqrt((z**2).mean(-1, keepdims=True))
        return z / size, size

    @property
    def smoothness(self) -> float:
        r"""$\rho$, found by ascent from random points, because there is no formula."""
        import jax.numpy as jnp

        if self._smoothness is None:
            x, y = self.x, self.y

            def loss(w: jnp.ndarray) -> jnp.ndarray:
                z = x @ w
                return jnp.mean(jnp.logaddexp(0.0, -y * z / jnp.sqrt(jnp.mean(z**2))))

            self._smoothness = sphere_smoothness(loss, np.ones(x.shape[1]))
        return self._smoothness


class Path(NamedTuple):
    """A run, step by step.

    Attributes:
        square: $|w_t|^2$, shape `(steps + 1, starts)`.
        loss: $L(w_t)$.
        gradient: $|\\nabla L(\\bar w_t)|^2$, on the unit sphere.
        end: the last weights.
    """

    square: np.ndarray
    loss: np.ndarray
    gradient: np.ndarray
    end: np.ndarray


def descend(loss: Loss, start: np.ndarray, lr: float, decay: float, steps: int) -> Path:
    """Gradient descent with weight decay from several starts, one a row."""
    w = np.array(start, float)
    rows: list[tuple[np.ndarray, ...]] = []
    for t in range(steps + 1):
        g = loss.gradient(w)
        square = (w**2).sum(-1)
        rows.append((square, loss.value(w), (g**2).sum(-1) * square))
        if t < steps:
            w = (1 - lr * decay) * w - lr * g
    square, value, gradient = (np.stack(column) for column in zip(*rows, strict=True))
    return Path(square, value, gradient, w)


def steep(random: np.random.Generator, smoothness: float, dim: int) -> tuple[Quotient, np.ndarray]:
    r"""A quotient with a given $\rho$ and random eigenvalues, and a unit vector where its gradient is largest."""
    top = smoothness / 2
    # The gradient is largest half way between the lowest and the highest eigenvector.
    direction = np.zeros(dim)
    direction[[0, -1]] = np.sqrt(0.5)
    return Quotient(np.sort(np.concatenate([[0.0, top], top * random.random(dim - 2)]))), direction


def three_losses(random: np.random.Generator, dim: int, samples: int) -> dict[str, Loss]:
    """A quotient with random ascending eigenvalues, a cosine, and a neuron on data with different spreads."""
    quotient, cosine = Quotient(np.sort(random.normal(size=dim))), Cosine(random.normal(size=dim))
    x = random.normal(size=(samples, dim)) * np.linspace(1, 0.5, dim)
    x = x - x.mean(0)
    y = np.where(x @ random.normal(size=dim) + random.normal(size=samples) > 0, 1.0, -1.0)
    return {"quotient": quotient, "cosine": cosine, "neuron": Neuron(x, y)}
