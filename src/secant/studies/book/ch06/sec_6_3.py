"""Section 6.3: neurons can be exchanged, so the loss is not convex, and it has saddle points."""

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.curvature import critical_point
from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.losses import half_mean
from secant.studies.shared.numerics.differences import largest


class Config(Seeded):
    neurons: int = option(4, at_least=2, at_most=6, help="neurons of the network and of its teacher")
    features: int = options.features(3, at_least=2, at_most=10)
    samples: int = options.samples(200, at_least=50, at_most=5_000)
    steps: int = options.steps(600, at_least=100, at_most=50_000)

    def check(self) -> None:
        """Enough data for one minimum up to its symmetry."""
        weights = self.neurons * self.features
        if self.samples < 10 * weights:
            raise ValueError(f"samples: {weights} weights need at least {10 * weights}, got {self.samples}.")


def network(weights: Any, x: Any) -> Any:
    """The sum of tanh of all neurons, for weights (neurons, features)."""
    return jnp.tanh(x @ weights.T).sum(1)


def loss(weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    return float(((np.tanh(x @ weights.T).sum(1) - y) ** 2).mean() / 2)


@study("book/sec-6.3", section="6.3", title="Symmetry makes saddle points")
def run(config: Config) -> xr.Dataset:
    r"""A permutation of its neurons changes neither a network $h_\theta(x) = \sum_i\sigma(w_i\cdot x)$ nor its loss:
    with one minimum $\theta^*$ there are $k!$ minima. If the loss were convex, their average $\bar\theta$ would be a
    minimum, too. But the neurons of the average are all equal, $\frac1k\sum_iw_i$, so that it is a network of one
    neuron. Gradient descent from there keeps them equal. It ends in a critical point that is no minimum: a saddle.
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
    # Newton's method on the single neuron, to the last digit.
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
    yield claim("minima", "loss at all permuted minima, largest").zero(
        data.at_minima.max(), 1e-28, "rounding: the data has no noise"
    )
    yield claim("average", "average of all permuted minima less the mean neuron").zero(
        largest(data.average, data.star.mean("neuron")), 1e-14, "rounding"
    )
    yield claim("average-loss", "loss at the average of the minima").at_least(
        1e-6, data.at_average, "a convex loss would have 0 there"
    )
    yield claim("equal-neurons", "descent from the average: largest distance of two neurons, all steps").zero(
        data.spread, 1e-12, "they stay equal"
    )
    yield claim("end-gradient", "end of descent: gradient").zero(
        data.gradient, 1e-12, "Newton's method finds it to rounding"
    )
    yield claim("end-loss", "end of descent: loss").at_least(1e-6, data.at_saddle, "one neuron cannot fit several")
    yield claim("end-saddle", "end of descent: a saddle").count(
        1, int(data.kind.item() == "saddle"), "the Hessian has both signs"
    )
    yield claim("end-curvature", "end of descent: smallest eigenvalue of the Hessian, with its error").at_most(
        0.0, data.smallest + data.error, "a way down"
    )
    why = "neurons move apart at the same mean: the network moves at second order alone"
    sentence = r"this eigenvalue over that of $\mathbb{E}\,(h - y)\sigma''(w\cdot x)xx^\top$"
    yield claim("way-curvature", sentence).equal(1.0, data.smallest / data.pair, 1e-9, why)
    yield claim("way-mean", "sum of the neurons' moves along its eigenvector").zero(
        data.moved, 1e-12, "the mean of the neurons does not move"
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
    axes = "along the smallest eigenvector", "loss less that of equal neurons"
    sheet.label(right, "The way out: neurons move apart", *axes, "best")
