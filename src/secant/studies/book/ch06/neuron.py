"""Section 6.2.1: one neuron, whose loss is not convex and still points to its minimum."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, sheet, study


class Config(Seeded):
    samples: int = options.samples(2_000, 20_000, at_least=200, at_most=200_000)
    features: int = options.features(5, at_least=2, at_most=50)
    points: int = option(200, at_least=10, at_most=5_000, help="random weights at which the gradient is measured")
    floor: float = option(0.2, at_least=0.02, at_most=0.9, help="c of c z + (1 - c) tanh z, the least slope")
    noise: float = option(0.3, at_least=1e-3, at_most=10, help="standard deviation of the noise")
    far: float = option(1e4, at_least=1e3, at_most=1e8, help="distance at which the secant constant is reached")

    def check(self) -> None:
        """Tables of samples and points that fit."""
        if self.samples * self.points > 2 * 10**7:
            raise ValueError(f"points: times samples at most 20,000,000, got {self.points * self.samples:,}.")


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(z / 2))


def leaky(z: np.ndarray, c: float) -> tuple[np.ndarray, np.ndarray]:
    """A monotone function with slope of at least c, and its derivative."""
    tanh = np.tanh(z)
    return c * z + (1 - c) * tanh, c + (1 - c) * (1 - tanh**2)


def bent(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    value = sigmoid(z)
    return value, value * (1 - value)


def drive(x: np.ndarray, w: np.ndarray, star: np.ndarray, act: Callable[..., Any]) -> np.ndarray:
    """The gradient without noise at rows of weights, (points, d)."""
    value, slope = act(w @ x.T)
    return ((value - act(star @ x.T)[0]) * slope) @ x / len(x)


@study("book/neuron", section="6.2", title="A single neuron")
def run(config: Config) -> xr.Dataset:
    r"""Let $y = \sigma(w_*\cdot x) + \epsilon$ with $\sigma$ monotone and $\mathbb E[\epsilon|x] = 0$, and
    $L = \frac12\mathbb E(y - \sigma(w\cdot x))^2$. Then
    $L = \frac12\mathbb E\epsilon^2 + \frac12\mathbb E(\sigma(w_*\cdot x) - \sigma(w\cdot x))^2$ and
    $\nabla L\cdot(w - w_*) = \mathbb E[\sigma'(\xi)\,\sigma'(w\cdot x)\,(w\cdot x - w_*\cdot x)^2] > 0$: the gradient
    is positively correlated with $w - w_*$. Where $\sigma' \ge c$ and $\mathbb E\,xx^\top \succeq \lambda$, the
    restricted secant inequality holds with $\tau = c^2\lambda$, and with no larger $\tau$.
    """
    rng = np.random.default_rng(config.seed)
    scales = np.geomspace(1.5, 0.5, config.features)
    x, star = rng.normal(size=(config.samples, config.features)) * scales, rng.normal(size=config.features)
    points = star + rng.normal(size=(config.points, config.features)) * np.geomspace(0.1, 10, config.points)[:, None]
    away, found = points - star, {}
    inputs = x @ star
    sloped = lambda z: leaky(z, config.floor)  # noqa: E731
    for name, act in (("sigmoid", bent), ("leaky", sloped)):
        z = points @ x.T
        value, slope = act(z)
        gap = z - inputs
        quotient = np.where(np.abs(gap) > 1e-9, (value - act(inputs)[0]) / np.where(np.abs(gap) > 1e-9, gap, 1), slope)
        found[f"{name}_inner"] = ("point", (drive(x, points, star, act) * away).sum(1))
        found[f"{name}_square"] = ("point", (quotient * slope * gap**2).mean(1))
    values, vectors = np.linalg.eigh(x.T @ x / len(x))
    out = star + config.far * vectors[:, 0]
    noise = rng.normal(size=config.samples) * config.noise
    cross = noise * (bent(inputs)[0] - bent(x @ points[-1])[0])
    line = star + np.linspace(-12, 12, 241)[:, None] * vectors[:, -1]
    return xr.Dataset(
        found
        | {
            "distance": ("point", np.linalg.norm(away, axis=1)),
            "smallest": values[0],
            "cross": ("sample", cross),
            "seen": float(np.abs(x @ vectors[:, 0]).mean()),
            "far": float(drive(x, out[None], star, sloped)[0] @ (out - star)) / config.far**2,
            "line": ("place", ((bent(line @ x.T)[0] - bent(inputs)[0]) ** 2).mean(1) / 2),
            "line_leaky": ("place", ((sloped(line @ x.T)[0] - sloped(inputs)[0]) ** 2).mean(1) / 2),
        }
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    c, smallest = config.floor, float(data.smallest)
    mean = r"$\mathbb{E}\,\sigma'(\xi)\sigma'(w\cdot x)(w\cdot x - w_*\cdot x)^2$"
    for name in ("sigmoid", "leaky"):
        inner, square = data[f"{name}_inner"].values, data[f"{name}_square"].values
        yield claim(f"identity-{name}", rf"{name}: $\nabla L\cdot(w - w_*)$ less {mean}, over it").zero(
            (np.abs(inner - square) / square).max(), 1e-9, "an identity: rounding of small differences"
        )
    inner = data.sigmoid_inner
    yield claim("correlation", r"sigmoid: share of random weights with $\nabla L\cdot(w - w_*) > 0$").share(
        1.0, inner > 0, inner > -np.inf, "positive correlation, at every $w$", otherwise="no weights"
    )
    ratio = (data.leaky_inner / data.distance**2).min() / (c**2 * smallest)
    sentence = r"slope of at least $c$: least $\nabla L\cdot(w - w_*)/|w - w_*|^2$ over $c^2\lambda$"
    yield claim("secant", sentence).at_least(1.0, ratio, "the restricted secant inequality", slack=1e-9)
    yield claim("secant-sharp", "this ratio far out along the direction of the least variance").equal(
        1.0,
        data.far / (c**2 * smallest),
        3 * (1 - c) / c * float(data.seen) / smallest / config.far + 50 / config.far,
        r"what tanh adds, at most 2 of $|w\cdot x - w_*\cdot x|$: the constant is sharp",
    )
    yield claim("noise", "mean of noise times signal: the cross term of the loss").zero(
        estimate(data.cross.values), 0.0, "the noise has mean zero, whatever the input"
    )
    curve = np.diff(data.line.values, 2)
    yield claim("not-convex", "sigmoid: least second difference of the loss along a line, over the largest").at_most(
        -1e-3, curve.min() / curve.max(), "the loss is not convex"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.2), 2)
    place = np.linspace(-12, 12, 241)
    left.plot(place, data.line / data.line.max(), label="sigmoid")
    left.plot(place, data.line_leaky / data.line_leaky.max(), label=f"slope of at least {config.floor:g}")
    sheet.label(left, "The loss through its minimum", r"$w - w_*$ along a line", "loss over its largest", "best")
    for i, name in enumerate(("sigmoid", "leaky")):
        label = "sigmoid" if i == 0 else f"slope of at least {config.floor:g}"
        right.loglog(data.distance, data[f"{name}_inner"] / data.distance**2, "o", ms=3, color=f"C{i}", label=label)
    sheet.mark(right, y=config.floor**2 * float(data.smallest), label=r"$c^2\lambda$")
    value = r"$\nabla L\cdot(w - w_*)/|w - w_*|^2$"
    sheet.label(right, "The gradient points the right way", r"$|w - w_*|$", value, "best")
