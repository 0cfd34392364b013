"""Figure 2.4: the edge of stability of a network on images of digits."""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.sparse import linalg

from secant import data
from secant.lab import Figure, Findings, Seeded, claim, estimate, fits_memory, option, options, scaled, sheet, study

LENGTH = 8.0
"""Root mean square length of all inputs, that of 8x8 standardised pixels: step sizes mean the same for all data."""


class Config(Seeded):
    data: str = scaled(smoke="digits", laptop="usps", paper="cifar10", help="a data set that secant.data knows")
    samples: int = options.samples(80, 200, 1_000, at_least=10, at_most=5_000)
    width: int = options.width(12, 32, 64, at_least=2, at_most=500)
    gain: float = option(0.2, at_least=0.1, at_most=1, help="size of the first weights over the usual one")
    lrs: tuple[float, ...] = options.lrs(
        (0.8, 1.2), (0.4, 0.8), at_least=0.05, at_most=2, ascending=True, shortest=2, longest=5
    )
    steps: int = options.steps(300, 2_000, 20_000, at_least=50, at_most=50_000)
    every: int = scaled(smoke=15, laptop=10, paper=50, at_least=1, at_most=1_000, help="steps between two looks")
    draws: int = options.draws(5, 4, 10, at_least=2, at_most=100)

    def check(self) -> None:
        """A known data set, enough looks for a late mean, and runs that fit into memory."""
        if self.data not in data.NAMES:
            raise ValueError(f"data: must be one of {', '.join(data.NAMES)}, got {self.data!r}.")
        if self.every > self.steps // 20:
            raise ValueError(f"every: at most steps / 20, {self.steps // 20}, got {self.every}.")
        numbers = self.steps + 6 * self.samples * self.width + 3_100 * (self.samples + 8 * self.width)
        fits_memory(8.0 * self.draws * len(self.lrs) * numbers, "samples, width or draws")


class Net(NamedTuple):
    """A network of one hidden layer of tanh; leading axes of its arrays stand for many networks."""

    W: np.ndarray
    b: np.ndarray
    V: np.ndarray
    c: np.ndarray

    def along(self, other: "Net", size: np.ndarray) -> "Net":
        """A step in a direction, of a size for each network."""
        return Net(*(one + size[:, None, None] * two for one, two in zip(self, other, strict=True)))


def turned(array: np.ndarray) -> np.ndarray:
    return np.swapaxes(array, -1, -2)


def slope(net: Net, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Net]:
    r"""The loss $\frac1{2n}\sum|f - y|^2$ and its gradient."""
    h = np.tanh(x @ net.W + net.b)
    residual = (h @ net.V + net.c - y) / x.shape[-2]
    back = residual @ turned(net.V) * (1 - h**2)
    gradient = Net(turned(x) @ back, back.sum(-2, keepdims=True), turned(h) @ residual, residual.sum(-2, keepdims=True))
    return x.shape[-2] / 2 * (residual**2).sum((-1, -2)), gradient


def product(net: Net, along: Net, x: np.ndarray, y: np.ndarray) -> Net:
    """The Hessian of the loss times a direction: the derivative of `slope` along it."""
    h = np.tanh(x @ net.W + net.b)
    bent = 1 - h**2
    residual = (h @ net.V + net.c - y) / len(x)
    back = residual @ net.V.T
    dh = bent * (x @ along.W + along.b)
    dr = (dh @ net.V + h @ along.V + along.c) / len(x)
    db = (dr @ net.V.T + residual @ along.V.T) * bent - 2 * h * dh * back
    return Net(x.T @ db, db.sum(0, keepdims=True), dh.T @ residual + h.T @ dr, dr.sum(0, keepdims=True))


def sharpness(net: Net, x: np.ndarray, y: np.ndarray, guess: np.ndarray) -> tuple[float, np.ndarray]:
    """The largest eigenvalue of the Hessian and its eigenvector, by Lanczos from a guess."""
    ends = np.cumsum([part.size for part in net])[:-1]

    def multiply(v: np.ndarray) -> np.ndarray:
        parts = Net(*(part.reshape(like.shape) for part, like in zip(np.split(v.ravel(), ends), net, strict=True)))
        return np.concatenate([part.ravel() for part in product(net, parts, x, y)])

    operator = linalg.LinearOperator((len(guess), len(guess)), matvec=multiply, dtype=float)
    values, vectors = linalg.eigsh(operator, 1, which="LA", v0=guess, ncv=min(12, len(guess)), tol=1e-3)
    return float(values[0]), vectors[:, 0]


@study("book/fig-2.4", section="2.6", title="The edge of stability")
def run(config: Config) -> xr.Dataset:
    r"""Gradient descent on all data takes small steps $\eta$. The largest eigenvalue of the Hessian, the sharpness,
    rises to $2/\eta$ and stays a little above it. From then on the loss goes up and down from step to step, and falls
    in the long run. The figure's network is a residual one on 5,000 images. The network here is a small one on digits,
    and on CIFAR-10 at the scale of the paper.
    """
    rng = np.random.default_rng(config.seed)
    limits: dict[str, Any] = {"samples": config.samples, "test_samples": 1, "labels": "one-hot", "dtype": np.float64}
    tasks = [data.load(config.data, seed=int(seed), **limits) for seed in rng.integers(2**31, size=config.draws)]
    many = len(config.lrs)
    x, y = (np.repeat(np.stack([task.train[i] for task in tasks]), many, 0) for i in (0, 1))
    inputs = x.shape[-1]
    x = x * (LENGTH / np.sqrt(inputs))
    root = config.gain / np.sqrt([LENGTH**2, LENGTH**2, config.width, config.width])
    shapes = ((inputs, config.width), (1, config.width), (config.width, y.shape[-1]), (1, y.shape[-1]))
    drawn = [rng.uniform(-r, r, size=(config.draws, *shape)) for r, shape in zip(root, shapes, strict=True)]
    net = Net(*(np.repeat(part, many, 0) for part in drawn))
    rates = np.tile(config.lrs, config.draws)
    alive = np.ones(len(rates), bool)
    loss, sharp, guess = [], [], rng.normal(size=(len(rates), sum(int(np.prod(shape)) for shape in shapes)))
    for step in range(config.steps + 1):
        if step % config.every == 0:
            sharp.append(np.full(len(rates), np.nan))
            for i in np.flatnonzero(alive):
                sharp[-1][i], guess[i] = sharpness(Net(*(part[i] for part in net)), x[i], y[i], guess[i])
        now, gradient = slope(net, x, y)
        loss.append(now)
        alive &= now < 100 * loss[0]  # what blows up stays where it is
        net = net.along(gradient, -rates * alive)
    shape = (config.draws, many, -1)
    return xr.Dataset(
        {
            "loss": (("draw", "lr", "step"), np.stack(loss, 1).reshape(shape)),
            "sharpness": (("draw", "lr", "look"), np.array(sharp).T.reshape(shape)),
        },
        coords={"lr": list(config.lrs), "look": config.every * np.arange(len(sharp))},
        attrs=tasks[0].attributes(),
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    share = data.sharpness * data.lr / 2
    below = (share[:, :, 0] < 1) & share[:, :, -1].notnull()
    reached = (share > 1).any("look")
    # A fifth of the run is left out after the first look above the edge: there the sharpness may still overshoot.
    first = share.look.where(share > 1).min("look")
    settled = share.where(share.look > first + config.steps / 5)
    late = settled.mean("look").where(below & reached)
    known, otherwise = late.notnull(), "no run starts below the edge and reaches it in time"
    yield claim("runs-reach", r"runs from below whose sharpness reaches $2/\eta$").share(
        1.0, reached, below, "the claim", otherwise="every run starts above the edge, or blows up"
    )
    for i, rate in enumerate(config.lrs):
        some, late_here = known[:, i].sum() > 1, lambda i=i: estimate(late[:, i])
        sentence = rf"step size {rate:g}: late sharpness over $2/\eta$"
        yield claim(f"late-{rate:g}", sentence, some, otherwise).at_least(1.0, late_here, "a little above")
        yield claim(f"late-bound-{rate:g}", f"{sentence}, bound from above", some, otherwise).at_most(
            1.3, late_here, "a little: less than a third"
        )
    change = np.sign(late - share[:, :, 0])
    yield claim("sign", "sign of the change of the smoothness, from the start to the edge").erratum(
        (r"\text{drops to about } 2/\eta", -1),
        (r"\text{rises to about } 2/\eta", 1),
        change.mean() if known.any() else np.nan,
        1e-12,
        "a sign, in every run",
        where="section 2.6",
        note="the caption of figure 2.4 has it right",
    )
    many = known.all("lr").sum() > 1
    rises = data.loss.diff("step") > 0
    at = xr.DataArray(np.arange(1, config.steps + 1), dims="step")
    before = rises.where(at < first - config.every).where(known)
    sentence = r"share of steps that raise the loss before the sharpness reaches $2/\eta$"
    yield claim("rises-before", sentence, known, otherwise).zero(
        lambda: before.mean(), 0.01, "the descent lemma, if curvature along a step is below the sharpness at its start"
    )
    after = rises.where(at > first + config.steps / 5).where(known).mean("step")
    yield claim("rises-after", "share of steps that raise the loss afterwards", many, otherwise).at_least(
        0.02, lambda: estimate(after.mean("lr")), "up and down"
    )
    third = config.steps // 3
    fall = data.loss[:, :, -third:].mean("step") / data.loss[:, :, third : 2 * third].mean("step")
    sentence = "mean loss of the last third of the run over that of the second third"
    yield claim("long-run", sentence, many, otherwise).at_most(
        1.0, lambda: estimate(fall.where(known).mean("lr")), "falls in the long run"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.4), 2)
    for i, rate in enumerate(config.lrs):
        left.semilogy(data.loss[0, i], color=f"C{i}", lw=1, label=rf"$\eta = {rate:g}$")
        right.plot(data.look, data.sharpness[0, i], color=f"C{i}", lw=1.2, label=rf"$\eta = {rate:g}$")
        sheet.mark(right, y=2 / rate, label=r"$2/\eta$" if i == 0 else None)
    sheet.label(left, "Loss", "step", None, "best")
    sheet.label(right, "Sharpness", "step", None, "best", ylim=(0, None))
