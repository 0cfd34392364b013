"""Problem 12.1.1: the covariance of a batch's gradient is the covariance of one sample's gradient, over the size."""

import itertools

import jax
import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, options, sheet, study
from secant.optim import Batches


class Config(Seeded):
    samples: int = options.samples(5, at_least=3, at_most=6)
    batch: int = options.batch(3, at_least=2, at_most=4)
    dim: int = options.dim(3, at_most=6)
    draws: int = options.draws(4_000, 40_000, at_least=200, at_most=10**5)

    def check(self) -> None:
        """Without replacement there must be something to choose."""
        if self.batch >= self.samples:
            raise ValueError(f"batch: must be below the {self.samples} samples, got {self.batch}.")


LAWS = ("independent", "without replacement")


def spread(gradients: np.ndarray, batches: np.ndarray) -> np.ndarray:
    """Mean square of batch gradients around the mean gradient, a matrix."""
    apart = gradients[batches].mean(1) - gradients.mean(0)
    return apart.T @ apart / len(batches)


@study("book/prob-12.1.1", section="12.1", title="The covariance of a batch's gradient")
def run(config: Config) -> xr.Dataset:
    r"""A batch of $B$ samples has the gradient $\nabla f^{(B)} = \frac1B\sum_{i \in B}\nabla f_i$. Its noise around
    $\bar\nabla = \frac1m\sum_i\nabla f_i$ has the covariance $\Sigma^{(B)} = \frac1B\Sigma$, $\Sigma =
    \frac1m\sum_i(\nabla f_i - \bar\nabla)(\nabla f_i - \bar\nabla)^\top$, if samples are drawn independently.
    Passes through the data draw without replacement: this multiplies the covariance by $\frac{m - B}{m - 1}$.
    """
    random = np.random.default_rng(config.seed)
    x, y = random.normal(size=(config.samples, config.dim)), random.choice([-1.0, 1.0], config.samples)
    w = random.normal(size=config.dim)
    g = -(y / (1 + np.exp(y * (x @ w))))[:, None] * x  # logistic regression
    every = {
        LAWS[0]: np.array(list(itertools.product(range(config.samples), repeat=config.batch))),
        LAWS[1]: np.array(list(itertools.combinations(range(config.samples), config.batch))),
    }
    apart = []
    for law in LAWS:
        of = lambda seed, law=law: Batches(config.batch, seed, law == LAWS[0]).indices(config.samples, 0)  # noqa: E731
        rows = np.asarray(jax.jit(jax.vmap(of))(config.seed % 2**20 + np.arange(config.draws)))
        apart.append(((g[rows].mean(1) - g.mean(0)) ** 2).sum(1))
    return xr.Dataset(
        {
            "gradients": (("sample", "parameter"), g),
            "square": (("law", "draw"), np.array(apart)),
            "listed": (("law", "parameter", "other"), np.stack([spread(g, every[law]) for law in LAWS])),
        },
        coords={"law": list(LAWS)},
    )


def predicted(data: xr.Dataset, config: Config) -> dict[str, np.ndarray]:
    sigma = np.cov(data.gradients.values.T, bias=True).reshape(config.dim, config.dim)
    few = (config.samples - config.batch) / (config.samples - 1)
    return {LAWS[0]: sigma / config.batch, LAWS[1]: few * sigma / config.batch}


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    g, m = data.gradients.values, config.samples
    for law, matrix in predicted(data, config).items():
        off = np.abs(data.listed.sel(law=law) - matrix).max() / np.abs(matrix).max()
        yield claim(f"{law}-listed", f"{law}: covariance over all batches, less the formula").zero(
            off, 1e-12, "rounding of float64"
        )
        yield claim(f"{law}-drawn", f"{law}: mean square of the noise of drawn batches, over its formula").equal(
            1, estimate(data.square.sel(law=law) / np.trace(matrix)), 0, "sampling error alone"
        )
    trace = np.trace(predicted(data, config)[LAWS[0]])
    yield claim("trace", "trace of the covariance of a batch's gradient").erratum(
        (r"\bar\nabla = \frac1m\nabla f_i(x)", (1 - 1 / m) ** 2 * (g**2).sum(1).mean() / config.batch),
        (r"\bar\nabla = \frac1m\sum_{i=1}^m\nabla f_i(x)", trace),
        np.trace(data.listed.sel(law=LAWS[0]).values),
        0,
        "a sum over all batches: rounding",
        relative=1e-12,
        note="The sum is missing. With one gradient alone the noise would not have mean zero.",
        where="section 12.1",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    axes = sheet.panels(figure, (7, 4.2))
    bins = np.linspace(0, float(data.square.max()), 40)
    names = r"$\mathrm{tr}\,\Sigma/B$", r"$\frac{m-B}{m-1}\,\mathrm{tr}\,\Sigma/B$"
    for i, (law, name) in enumerate(zip(LAWS, names, strict=True)):
        axes.hist(data.square.sel(law=law), bins, density=True, histtype="step", lw=1.6, color=f"C{i}", label=law)
        sheet.mark(axes, x=np.trace(predicted(data, config)[law]), color=f"C{i}", label=name)
    title = f"Noise of batches of {config.batch} out of {config.samples}"
    sheet.label(axes, title, r"$|z^{(B)}|^2$", "density", "best")
