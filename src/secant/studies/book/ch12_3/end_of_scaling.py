"""The linear scaling rule ends at a share of the step size at which second moments stop shrinking."""

from typing import Any

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, scaled, sheet, study
from secant.theory.noise.mean_square import critical_step, mean_losses


class Config(Seeded):
    samples: int = options.samples(32, at_least=16, at_most=256)
    features: int = options.features(40, at_least=8, at_most=512)
    factors: tuple[int, ...] = option(
        (2, 4, 8),
        at_least=2,
        at_most=16,
        longest=4,
        ascending=True,
        help="factors of step size and batch, powers of two",
    )
    shares: int = scaled(smoke=16, laptop=48, at_least=8, at_most=100, help="step sizes, as shares of the critical one")
    steps: int = options.steps(64, at_least=32, at_most=256)
    draws: int = options.draws(8, 12, at_least=3, at_most=50)
    chains: int = scaled(smoke=2_000, laptop=20_000, at_least=500, at_most=10**5, help="runs on real batches")

    def check(self) -> None:
        """Whole numbers of steps between the times at which losses are compared."""
        if any(k & (k - 1) for k in self.factors) or self.steps % (4 * max(self.factors)):
            raise ValueError(f"factors: must be powers of two that divide a quarter of the steps, got {self.factors}.")
        if max(self.factors) > self.samples:
            raise ValueError(f"factors: must be at most the {self.samples} samples, got {max(self.factors)}.")


def chain_losses(
    random: np.random.Generator, X: np.ndarray, w: np.ndarray, lr: float, batch: int, steps: int, chains: int
) -> np.ndarray:
    """Losses at the end of runs on real batches, from zero weights, with targets `X @ w`."""
    v = np.broadcast_to(-w, (chains, len(w))).copy()
    for _ in range(steps):
        rows = X[random.integers(len(X), size=(chains, batch))]
        v -= lr / batch * np.einsum("cbd,cb->cd", rows, np.einsum("cbd,cd->cb", rows, v))
    return ((X @ v.T) ** 2).mean(0) / 2


@study("book/end-of-scaling", section="12.3", title="Where the linear scaling rule ends", new=True)
def run(config: Config) -> xr.Dataset:
    r"""Step size and batch times $\kappa$ give the same run, up to some $\kappa$. For squared losses near a solution
    that fits all samples, second moments of SGD obey a closed recursion, and beyond a critical step $\eta_c(B)$ they
    grow. Does the rule end there, at $\kappa\eta = \eta_c(\kappa B)$? Exact mean losses on random linear problems
    answer: this is an upper end. The loss is off by a fifth somewhat earlier, but not before half of the critical step.
    """
    rng = np.random.default_rng(config.seed)
    share = np.linspace(0.1, 1.6, config.shares)
    ratio = np.empty((config.draws, len(config.factors), config.shares, 4))
    quarter = config.steps // 4
    for d in range(config.draws):
        X = rng.normal(size=(config.samples, config.features)) / np.sqrt(config.features)
        w = rng.normal(size=config.features)
        kernel, residual = X @ X.T, -X @ w
        for i, k in enumerate(config.factors):
            lr = share * critical_step(kernel, k, sampling="iid", tol=1e-6).step / k
            first = mean_losses(kernel, residual, lr, 1, config.steps)[:, quarter::quarter]
            scaled_up = mean_losses(kernel, residual, k * lr, k, config.steps // k)[:, quarter // k :: quarter // k]
            ratio[d, i] = scaled_up / first
    # Real batches of the last problem and factor, at a third of the critical step.
    third = critical_step(kernel, k, sampling="iid", tol=1e-6).step / (3 * k)
    exact = mean_losses(kernel, residual, np.array([k * third]), k, config.steps // k)[0, -1]
    real = chain_losses(rng, X, w, k * third, k, config.steps // k, config.chains)
    return xr.Dataset(
        {"ratio": (("draw", "factor", "share", "look"), ratio), "exact": exact, "losses": ("chain", real)},
        coords={"factor": list(config.factors), "share": share},
    )


def ends(data: xr.Dataset) -> np.ndarray:
    """The first share of the critical step at which the loss is off by a fifth at some time, `(draw, factor)`."""
    off = np.abs(np.log(data.ratio)).max("look").values / np.log(1.2)
    found = np.full(off.shape[:2], np.nan)
    for place in np.ndindex(found.shape):
        above = np.nonzero(off[place] > 1)[0]
        if len(above) and above[0]:  # between two step sizes, along a line in the logarithm
            i = above[0]
            low, high = np.log(off[place][i - 1 : i + 1])
            found[place] = data.share[i - 1] + (data.share[i] - data.share[i - 1]) * -low / (high - low)
    return found


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    found = ends(data)
    given: dict[str, Any] = {
        "given": bool(np.isfinite(found).all()),
        "otherwise": "a run never parts, or parts at the first step size, and has no end",
    }
    yield claim("mean-loss", "mean loss on real batches over the mean loss of the recursion").equal(
        1, estimate(data.losses / data.exact), 0, "sampling error"
    )
    yield claim("latest-end", "end of the rule over the critical step, largest of all factors, mean", **given).at_most(
        1.0, estimate(found.max(1)), "moments grow beyond it"
    )
    yield claim("first-end", "end of the rule over the critical step, least of all factors, mean", **given).at_least(
        0.5, estimate(found.min(1)), "the guess, to a factor of two"
    )
    half = np.abs(np.log(data.ratio.sel(share=slice(None, 0.5)))).max().item()
    name = "below half of the critical step: largest logarithm of the loss over the loss of small batches"
    yield claim("below-half", name).at_most(np.log(1.2), half, "the rule holds to a fifth")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    off = np.abs(np.log(data.ratio)).max("look")
    for i, k in enumerate(config.factors):
        spread = np.exp(off.sel(factor=k)).clip(max=1e3)
        left.plot(data.share, spread.median("draw"), "o-", ms=3, color=f"C{i}", label=rf"$\kappa = {k}$")
        left.fill_between(data.share, spread.min("draw"), spread.max("draw"), color=f"C{i}", alpha=0.2, lw=0)
    share = r"$\kappa\eta/\eta_c(\kappa B)$"
    sheet.mark(left, x=1.0, y=1.2)
    sheet.label(left, "Loss of scaled runs over small batches", share, "factor", "upper left", yscale="log")
    found = ends(data)
    for d in range(config.draws):
        right.plot(config.factors, found[d], "o-", color="C0", alpha=0.6, lw=1)
    sheet.mark(right, y=1.0)
    sheet.label(right, "Where the loss is off by a fifth", r"$\kappa$", share, ylim=(0, 1.1), xscale="log")
    right.set_xticks(config.factors, config.factors)
    right.minorticks_off()
