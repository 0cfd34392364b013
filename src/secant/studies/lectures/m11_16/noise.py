"""Lecture of 11/16: the covariance of a batch gradient, by listing all batches."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, Tolerance, claim, option, options, sheet, study
from secant.theory.noise.fluctuation import noise_matrices
from secant.theory.noise.mean_square import batches_of

LAWS = {"bernoulli": "Bernoulli batches", "fixed": "batches of fixed size"}


class Config(Seeded):
    samples: int = options.samples(8, 14, at_least=3, at_most=14)
    batch: int = options.batch(3, at_most=13)
    parameters: int = option(3, at_least=2, at_most=50, help="parameters of the linear model")
    lr: float = options.lr(0.1, at_least=1e-3, at_most=10)

    def check(self) -> None:
        """Refuses batches of all samples, which have no noise."""
        if self.batch >= self.samples:
            raise ValueError(f"batch: must be below samples, {self.samples}, got {self.batch}.")


@study("lectures/11-16-noise", section="11-16", title="The noise of a batch")
def run(config: Config) -> xr.Dataset:
    r"""SGD descends $L^B = \frac1{|B|}\sum_k1_{k\in B}\,\ell_k$. With $g_k = \nabla\ell_k$, $\tilde C =
    [\nabla L^B\nabla L^{B\top}]$ over batches and $C = \tilde C - \nabla L\nabla L^\top$ the covariance is

    - $C = \frac{1 - p}{|B|\,m}\sum_kg_kg_k^\top$, not centred, if every one of $m$ samples is in the batch with
      probability $p = |B|/m$,
    - $C = \frac1{|B|}\frac{m - |B|}{m - 1}\bigl(\frac1m\sum_kg_kg_k^\top - \nabla L\nabla L^\top\bigr)$, if the size
      is fixed.

    A step is $-\eta\nabla L^B = -\eta\nabla L + \eta(\nabla L - \nabla L^B)$, and $\tilde C_{ii} = C_{ii} +
    (\partial_iL)^2$.
    """
    random = np.random.default_rng(config.seed)
    x = random.normal(size=(config.samples, config.parameters))
    g = x * (x @ random.normal(size=config.parameters) - random.normal(size=config.samples))[:, None]
    matrices = ("law", "row", "column")
    seen, closed, drawn = [], [], {}
    for law in LAWS:
        counts, chances = batches_of(config.samples, config.batch, law)
        batch = counts @ g / config.batch
        drawn[law] = batch, chances
        mean = chances @ batch
        seen.append(((batch - mean).T * chances) @ (batch - mean))
        closed.append(noise_matrices(g, config.batch, law).covariance)
    batch, chances = drawn["bernoulli"]
    sizes = np.arange(1, config.samples + 1)
    traces = [[np.trace(noise_matrices(g, int(b), law).covariance) for b in sizes] for law in LAWS]
    return xr.Dataset(
        {
            "listed": (matrices, np.stack(seen)),
            "closed": (matrices, np.stack(closed)),
            "gradients": (("sample", "row"), g),
            "bias": ("law", [np.abs(drawn[law][1] @ drawn[law][0] - g.mean(0)).max() for law in LAWS]),
            "square": chances @ (batch**2).sum(1),
            "points": (("draw", "row"), batch),
            "chance": ("draw", chances),
            "traces": (("law", "size"), traces),
        },
        coords={"law": list(LAWS), "size": sizes},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    g, rounding, where = data.gradients.values, "an identity: rounding of float64 over all batches", "lecture of 11/16"
    mean, m, b = g.mean(0), config.samples, config.batch
    slope = float(mean @ mean)
    for i, (law, name) in enumerate(LAWS.items()):
        C, bias = data.closed[i].values, data.bias[i] / np.abs(mean).max()
        what = f"{name}: mean of the batch gradient less the gradient, over it"
        yield claim(f"{law}-mean", what).zero(bias, 1e-11, rounding)
        apart = np.abs(data.listed[i].values - C).max() / np.trace(C)
        what = f"{name}: covariance by listing less the formula, over its trace"
        yield claim(f"{law}-covariance", what).zero(apart, 1e-11, rounding)
    centred = np.trace(data.closed[1].values) * b * (m - 1) / (m - b)
    noise, second = float(np.trace(data.listed[0].values)), float(data.square)
    free = np.trace(data.listed[0].values) * b / (1 - b / m)
    yield claim("not-centred", r"Bernoulli batches: their trace less a centred one, over $|\nabla L|^2$").equal(
        1.0, (free - centred) / slope, 1e-9 * (1 + centred / slope), "they are not centred; rounding"
    )
    yield claim("step", "mean square of a step, from drift and noise").erratum(
        (r"$-\eta\nabla L^B + \eta(\nabla L - \nabla L^B)$", config.lr**2 * (slope + 4 * noise)),
        (r"$-\eta\nabla L + \eta(\nabla L - \nabla L^B)$", config.lr**2 * (slope + noise)),
        config.lr**2 * second,
        Tolerance(0.0, 1e-11, rounding),
        where=f"{where}, SGD as gradient descent with noise",
        note="The drift is the gradient of all samples. With the batch in both terms the noise counts twice.",
    )
    yield claim("second-moment", "trace of the second moment of the batch gradient").erratum(
        (r"$\tilde C_{ii} = C_{ii} + (\partial_iL^B)^2$", noise + second),
        (r"$\tilde C_{ii} = C_{ii} + (\partial_iL)^2$", noise + slope),
        second,
        Tolerance(0.0, 1e-11, rounding),
        where=f"{where}, the fluctuation relation",
        note="The mean that is subtracted is the gradient of all samples. The gradient of a batch varies, and its mean "
        "square is the left side already.",
    )


def ellipse(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Points of the ellipse of two standard deviations."""
    values, vectors = np.linalg.eigh(covariance)
    turn = np.linspace(0, 2 * np.pi, 200)
    circle = np.stack([np.cos(turn), np.sin(turn)])
    return mean[:, None] + 2 * vectors @ (np.sqrt(np.maximum(values, 0))[:, None] * circle)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.6), 2)
    mean, weight = data.gradients.values.mean(0)[:2], data.chance.values / data.chance.values.max()
    left.scatter(*data.points.values[:, :2].T, s=4 + 26 * weight, color="C0", alpha=0.35, lw=0)
    shown = data.traces.where(data.traces > 1e-12 * float(data.traces.max()))  # a batch of all samples has no noise
    for i, name in enumerate(LAWS.values()):
        left.plot(*ellipse(mean, data.closed[i].values[:2, :2]), color=f"C{i}", lw=2, label=name)
        right.plot(data.size, shown[i], "o-", color=f"C{i}", ms=4, label=name)
    left.plot(*mean, "+", color=sheet.ink(), ms=12, mew=2, label=r"$\nabla L$")
    title = "Gradients of all Bernoulli batches, and two deviations"
    sheet.label(left, title, r"$\partial_1L^B$", r"$\partial_2L^B$", "best")
    sheet.label(right, "How much noise is left", "samples a batch", r"$\mathrm{tr}\,C$", "best", yscale="log")
    right.set_ylim(0.5 * float(shown.min()), 2 * float(shown.max()))
