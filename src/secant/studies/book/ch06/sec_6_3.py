"""Section 6.3: neurons can be exchanged, so the loss is not convex, and it has saddle points."""

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.curvature import critical_point
from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.losses import half_mean


class Config(Seeded):
    neurons: int = option(4, at_least=2, at_most=6, help="of the network and of its teacher")
    features: int = option(3, at_least=2, at_most=10, help="dimension of the inputs")
    samples: int = options.samples(200, at_least=50, at_most=5_000)
    steps: int = options.steps(600, at_least=100, at_most=50_000)

    def check(self) -> None:
        """Enough data for one minimum up to its symmetry."""
        if self.samples < 10 * self.neurons * self.features:
            raise ValueError(
                f"samples: at least 10 for each of {self.neurons * self.features} weights, which is "
                f"{10 * self.neurons * self.features}; got {self.samples}."
            )


def network(weights: Any, x: Any) -> Any:
    """Sum of tanh of every neuron: weights of shape (neurons, features)."""
    return jnp.tanh(x @ weights.T).sum(1)


def loss(weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    return float(((np.tanh(x @ weights.T).sum(1) - y) ** 2).mean() / 2)


@study("book/sec-6.3", section="6.3", title="Symmetry makes saddle points")
def run(config: Config) -> xr.Dataset:
    r"""A network $h_\theta(x) = \sum_i\sigma(w_i\cdot x)$ is the same after any permutation of its neurons, and so is
    its loss: with one minimum $\theta^*$ there are $k!$. Were the loss convex, their average $\bar\theta$ would be a
    minimum, too; but its neurons are all equal, $\frac1k\sum_iw_i$, so that it is a network of one neuron. Gradient
    descent from there keeps them equal, and ends in a critical point that is none: a saddle.
    """
    rng = np.random.default_rng(config.seed)
    k, d = config.neurons, config.features
    star = rng.normal(size=(k, d)) * 1.5
    x = rng.normal(size=(config.samples, d))
    y = np.tanh(x @ star.T).sum(1)
    orders = list(itertools.permutations(range(k)))
    permuted = np.stack([star[list(order)] for order in orders])
    w = np.tile(star.mean(0), (k, 1))
    rate, losses, spread = 1 / (k * np.linalg.eigvalsh(x.T @ x / len(x))[-1]), [], 0.0
    for step in range(config.steps):
        act = np.tanh(x @ w.T)
        miss = act.sum(1) - y
        if step % max(config.steps // 100, 1) == 0:
            losses.append((miss**2).mean() / 2)
        w = w - rate * ((miss[:, None] * (1 - act**2)).T @ x) / len(x)
        spread = max(spread, np.abs(w - w[0]).max())
    # Newton's method on the one neuron that is left, to the last digit.
    one = w[0]
    for _ in range(30):
        t = np.tanh(x @ one)
        slope, miss = k * (1 - t**2), k * t - y
        H = (x.T * (slope**2 + miss * slope * -2 * t)) @ x / len(x)
        one = one - np.linalg.solve(H, (miss * slope) @ x / len(x))
    point = critical_point(network, np.tile(one, (k, 1)), x, y, half_mean, eps=1e-9)
    way = np.asarray(point.direction)
    out = np.linspace(-1, 1, 81)
    t = np.tanh(x @ one)
    pair = (x.T * ((k * t - y) * -2 * t * (1 - t**2))) @ x / len(x)
    return xr.Dataset(
        {
            "star": (("neuron", "feature"), star),
            "at_minima": ("order", [loss(p, x, y) for p in permuted]),
            "average": (("neuron", "feature"), permuted.mean(0)),
            "at_average": loss(permuted.mean(0), x, y),
            "course": ("look", losses),
            "spread": spread,
            "kind": point.kind,
            "smallest": point.smallest,
            "error": point.smallest_error,
            "largest": point.largest,
            "gradient": point.gradient,
            "at_saddle": loss(np.tile(one, (k, 1)), x, y),
            "pair": np.linalg.eigvalsh(pair)[0],
            "way": (("neuron", "feature"), way),
            "moved": (way.sum(0) ** 2).sum(),
            "along": ("place", [loss(np.tile(one, (k, 1)) + s * way, x, y) for s in out]),
            "between": ("share", [loss((1 - s) * permuted[0] + s * permuted[-1], x, y) for s in np.linspace(0, 1, 81)]),
        }
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    yield claim("loss-permuted-minima", "loss at all permuted minima, largest").zero(
        data.at_minima.max(), 1e-28, "rounding: the data has no noise"
    )
    yield claim("average-permuted-minima", "average of all permuted minima less the mean neuron").zero(
        np.abs(data.average - data.star.mean("neuron")).max(), 1e-14, "rounding"
    )
    yield claim("loss-average-minima", "loss at the average of the minima").at_least(
        1e-6, data.at_average, "a convex loss would have 0 there"
    )
    yield claim("neurons-average-distance", "neurons from the average: largest distance between two, all steps").zero(
        data.spread, 1e-12, "they stay equal"
    )
    yield claim("gradient-where-they", "gradient where they end").zero(
        data.gradient, 1e-12, "Newton's method finds it to rounding"
    )
    yield claim("loss-where-they", "loss where they end").at_least(
        1e-6, data.at_saddle, "one neuron cannot fit several"
    )
    yield claim("where-they-end", "where they end is a saddle").count(
        1, int(data.kind.item() == "saddle"), "the Hessian has both signs"
    )
    yield claim("smallest-eigenvalue-hessian", "smallest eigenvalue of its Hessian, with its error").at_most(
        0.0, data.smallest + data.error, "a way down"
    )
    yield claim("eigenvalue-one-e", "that eigenvalue over the one of E[(h - y) sigma''(w.x) xx']").equal(
        1.0,
        data.smallest / data.pair,
        1e-9,
        "neurons move apart at the same mean: the network moves at second order alone",
    )
    yield claim("sum-neurons-moves", "sum of the neurons' moves along it").zero(
        data.moved, 1e-12, "the same: none of the mean"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    left.plot(np.linspace(0, 1, 81), data.between)
    sheet.mark(left, y=float(data.at_average), label=f"average of all {len(data.order)} minima")
    sheet.label(left, "From one minimum to another", "share of the way", "loss", "best")
    looks = 1 + np.arange(len(data.look)) * max(config.steps // 100, 1)
    middle.plot(looks, data.course)
    sheet.mark(middle, y=float(data.at_saddle), label="one neuron at its best")
    sheet.label(middle, "Gradient descent from the average", "step", "loss", "best", xscale="log")
    right.plot(np.linspace(-1, 1, 81), data.along - data.at_saddle)
    right.plot(0, 0, "o", label="equal neurons")
    sheet.label(
        right,
        "The way out: neurons move apart",
        "along the smallest eigenvector",
        "loss less that of equal neurons",
        "best",
    )
