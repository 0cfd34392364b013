"""Lecture of 11/9: sparse targets are learned from few samples only where the start is small."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, scaled, sheet, study
from secant.theory.bias import potentials
from secant.theory.bias.interpolants import bregman_projection, min_norm


class Config(Seeded):
    dimension: int = scaled(smoke=40, laptop=100, at_least=4, at_most=400, help="weights")
    sparsity: int = option(2, at_least=1, at_most=20, help="weights of the target that are not zero")
    shares: tuple[float, ...] = option((0.2, 0.35, 0.5, 0.75), above=0, below=1, help="samples over weights")
    alphas: tuple[float, ...] = option(
        (100.0, 1.0, 0.1, 0.01, 1e-4), at_least=1e-6, at_most=1e4, help="sizes of the start, large and small"
    )
    draws: int = options.draws(16, 50, at_least=2, at_most=1_000)

    def check(self) -> None:
        """Refuses targets that do not exist, and data without a sample."""
        if self.sparsity > self.dimension or min(self.shares) * self.dimension < 1:
            raise ValueError(f"dimension: must be at least sparsity and one over every share, got {self.dimension}.")


@study("lectures/11-09-sparse", section="11-09", title="Sparse targets and the size of the start")
def run(config: Config) -> xr.Dataset:
    r"""A target of $s$ weights out of $d$ is seen in $N < d$ Gaussian samples. From a large start a diagonal network
    ends in the least $\ell_2$ norm. On average its squared test error is $1 - N/d$ of the target, whatever the
    sparsity. From a small start the network ends near the least $\ell_1$ norm, which recovers the target from a number
    of samples of the order $s\log(d/s)$.
    """
    rng = np.random.default_rng(config.seed)
    target = np.zeros(config.dimension)
    target[: config.sparsity] = 1 / np.sqrt(config.sparsity)
    kinds = potentials.hypentropy(np.array(config.alphas)[:, None])
    errors, sparse = (np.empty((config.draws, len(config.shares), *more)) for more in ((len(config.alphas),), ()))
    for draw in range(config.draws):
        for column, share in enumerate(config.shares):
            X = rng.normal(size=(int(share * config.dimension), config.dimension))
            y = X @ target
            errors[draw, column] = ((bregman_projection(X, y, kinds).weights - target) ** 2).sum(-1)
            sparse[draw, column] = ((min_norm(X, y, 1) - target) ** 2).sum()
    return xr.Dataset(
        {"error": (("draw", "share", "alpha"), errors), "least_l1": (("draw", "share"), sparse)},
        coords={"share": list(config.shares), "alpha": list(config.alphas)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    large, small, most = (int(np.argmax(config.alphas)), int(np.argmin(config.alphas)), int(np.argmax(config.shares)))
    first, last = config.alphas[large], config.alphas[small]
    for column, share in enumerate(config.shares):
        samples = int(share * config.dimension)
        # At a start of 100 weights differ from those of the least l2 norm by 1e-9 of them.
        name = f"largest start, {samples} samples: squared error over that of zero weights"
        yield claim(f"large-start-{share:g}", name, given=first >= 10, otherwise="no start is large").equal(
            1 - samples / config.dimension,
            estimate(data.error[:, column, large]),
            1e-3 if first >= 10 else np.nan,
            "the sampling error, and the start that is not infinite",
        )
    needed = 4 * config.sparsity * np.log(config.dimension / config.sparsity)
    enough = int(config.shares[most] * config.dimension) >= needed
    judged, otherwise = enough and last <= 1e-2 and first >= 1, "too few samples for the sparsity, or starts too close"
    name = "smallest start over largest, most samples: squared error"
    yield claim("recovery", name, given=judged, otherwise=otherwise).at_most(
        0.1,
        estimate(data.error[:, most, small] / data.error[:, most, large]),
        "recovery: an order of magnitude or more",
    )
    name = "squared error from the largest start less that from the smallest, mean over all numbers of samples"
    gain = (data.error[:, :, large] - data.error[:, :, small]).mean("share")
    yield claim("gain", name, given=first > last, otherwise="one start only").at_least(
        0.0, estimate(gain), "a sparse target favours a small start"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    axes, mean = sheet.panels(figure, (8, 4.4)), data.mean("draw")
    for i, alpha in enumerate(config.alphas):
        label = rf"$\alpha = {alpha:g}$"
        axes.plot(data.share, mean.error.sel(alpha=alpha), "o-", ms=4, color=f"C{i % 10}", label=label)
    axes.plot(data.share, mean.least_l1, "s:", ms=4, color=sheet.ink(), label=r"least $\ell_1$ norm")
    ends = np.array([min(config.shares), max(config.shares)])
    sheet.guide(axes, ends, 1 - ends, r"$1 - N/d$")
    title = f"Squared test error, {config.sparsity} of {config.dimension} weights"
    sheet.label(axes, title, "samples over weights", None, {"ncols": 2})
