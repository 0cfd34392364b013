"""Quadratics in one dimension on which stochastic gradients and their equation are both known exactly."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from secant.lab import Findings, claim, estimate
from secant.theory.noise.linear_noise import NoisyQuadratic


def three() -> NoisyQuadratic:
    r"""The losses $(x - 3)^2$, $(x + 3)^2$ and $x^2 + 9$, one drawn at a time: $\Sigma = 24$ everywhere."""
    return NoisyQuadratic(2 * np.ones((3, 1, 1)), np.array([[6.0], [-6.0], [0.0]]))


def skewed(curvature: float, chance: float) -> NoisyQuadratic:
    r"""The loss $\frac\lambda2x^2$ with gradient noise $\sqrt{(1 - p)/p}$ with chance $p$, else $-\sqrt{p/(1 - p)}$."""
    high, low = np.sqrt((1 - chance) / chance), np.sqrt(chance / (1 - chance))
    return NoisyQuadratic(
        np.full((2, 1, 1), float(curvature)), np.array([[-high], [low]]), np.array([chance, 1 - chance])
    )


def skewness(chance: float) -> float:
    r"""The third moment of the noise of `skewed`, $(1 - 2p)/\sqrt{p(1 - p)}$."""
    return (1 - 2 * chance) / float(np.sqrt(chance * (1 - chance)))


def chains(
    random: np.random.Generator,
    shape: tuple[int, ...],
    model: NoisyQuadratic,
    lr: float,
    steps: int,
    start: float,
    batch: int = 1,
) -> np.ndarray:
    """Where many runs of stochastic gradient descent in one dimension end, on batches of independent samples."""
    assert model.chances is not None
    H, h = model.hessians[:, 0, 0], model.offsets[:, 0]
    x = np.full(shape, float(start))
    for _ in range(steps):
        seen = random.choice(len(H), size=(batch, *shape), p=model.chances)
        x = x - lr * (H[seen] * x - h[seen]).mean(0)
    return x


def agree(key: str, name: str, x: xr.DataArray, mean: float, variance: float) -> Findings:
    """Two claims: runs have the mean and the variance that their formulas give."""
    yield claim(f"{key}-mean", f"{name}: mean less its formula").equal(0, estimate(x - mean), 0, "sampling error alone")
    spread = estimate((x - mean) ** 2 / variance)
    yield claim(f"{key}-variance", f"{name}: variance over its formula").equal(1, spread, 0, "sampling error alone")


def normal(x: np.ndarray, mean: float, variance: float) -> np.ndarray:
    """The density of a normal law."""
    return np.exp(-((x - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
