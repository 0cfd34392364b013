"""Lecture of 11/30: gradients of random ReLU networks are log-normal, by the ratio of depth to width."""

import math

import numpy as np
import xarray as xr
from scipy import stats

from secant import lab
from secant.lab import Figure, Findings, Seeded, Tolerance, claim, estimate, fits_memory, option, options, sheet, study
from secant.theory.wide import relu_paths as rp

SMALL = (4, 30, 30, 30, 30)
"""Inputs and widths of networks that are drawn weight by weight."""

FEW = 10
"""Layers of networks so shallow that the draws can measure mean fourth powers."""


class Config(Seeded):
    width: int = options.width(200, at_least=100, at_most=5_000)
    depths: tuple[int, ...] = option(
        (20, 100, 200), at_least=5, at_most=1_000, longest=6, ascending=True, help="numbers of hidden layers"
    )
    draws: int = options.draws(8_000, 100_000, at_least=2_000, at_most=10**6)

    def check(self) -> None:
        """Coins and lengths that a machine holds."""
        fits_memory(60.0 * self.draws * max(self.depths), "draws or depths")


@study("lectures/11-30-lengths", section="11-30", title="Depth over width decides how random a gradient is")
def run(config: Config) -> xr.Dataset:
    r"""For large widths and $\beta = 5\sum_l 1/n_l$, five times the ratio of depth to width, squared derivatives of a
    random ReLU network are log-normal: $\exp\mathcal N(-\frac\beta2, \beta)$ times their mean. So they are
    exponentially sensitive to $L/n$. This is the law of the sum of squares over the last hidden layer. A single output
    multiplies the sum by one independent $\chi^2_1$. Mean fourth powers grow as $e^\beta$.
    """
    random = np.random.default_rng(config.seed)
    z = rp.signals(rp.draw_weights(random, SMALL, config.draws // 4), np.ones(SMALL[0]))
    deep = rp.surrogate_norms(random, (1, *[config.width] * max(config.depths)), config.draws)
    shapes = [rp.surrogate_norms(random, (1, *widths), config.draws) for widths in _shapes(config.width)]
    return xr.Dataset(
        {
            "hidden": ("network", _log(np.sum(np.maximum(z[-2], 0) ** 2, 1) / SMALL[-1])),
            "output": ("network", _log(z[-1][:, 0] ** 2)),
            "log": (("draw", "depth"), _log(deep[:, np.array(config.depths) - 1])),
            "shape": (("draw", "kind"), _log(np.stack([found[:, -1] for found in shapes], 1))),
            "length": (("draw", "layer"), shapes[0]),
        },
        coords={"depth": list(config.depths), "layer": np.arange(1, FEW + 1)},
    )


def _log(lengths: np.ndarray) -> np.ndarray:
    """Logarithms, and NaN where a layer is shut and there is no length."""
    return np.log(np.where(lengths > 0, lengths, np.nan))


def _shapes(width: int) -> list[tuple[int, ...]]:
    """Networks with one sum of inverse widths: few layers, twice as many of twice the width, and one narrow layer."""
    return [(width,) * FEW, (2 * width,) * 2 * FEW, (width // 4, *[width] * (FEW - 4))]


def _spread(values: xr.DataArray) -> lab.Estimate:
    """The variance of repeats."""
    kept = values.values[np.isfinite(values.values)]
    return estimate((kept - kept.mean()) ** 2 * len(kept) / (len(kept) - 1))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    mean, variance, _ = rp.log_norm(SMALL)
    size, exact = f"{len(SMALL) - 1} layers of {SMALL[-1]}", "exact at every width"
    yield claim("small-mean", f"{size}: mean of the log").equal(mean, estimate(data.hidden), 0, exact)
    yield claim("small-variance", f"{size}: variance of the log").equal(variance, _spread(data.hidden), 0, exact)
    printed, corrected = (r"\beta", rp.aspect(SMALL)), (r"\beta + \pi^2/2", variance + math.pi**2 / 2)
    note = "The law is that of the sum of squares over the last hidden layer; one output is a Gaussian sum over it."
    found, where = _spread(data.output), "lecture of 11/30, the theorem on log-normality"
    yield claim("one-output", f"{size}: variance of the log of one squared derivative").erratum(
        printed, corrected, found, 0, exact, note=note, where=where
    )
    order = Tolerance(relative=5 / config.width, why="the next order, below 5/n of it")
    for depth in config.depths:
        widths, name = (1, *[config.width] * depth), f"{depth} layers of {config.width}"
        found, beta = data.log.sel(depth=depth), rp.aspect(widths)
        yield claim(f"mean-{depth}", f"{name}: mean of the log").equal(-beta / 2, estimate(found), order)
        yield claim(f"variance-{depth}", f"{name}: variance of the log").equal(beta, _spread(found), order)
        mean, variance, third = rp.log_norm(widths)
        low, high = found < -beta / 2 - math.sqrt(beta), found > -beta / 2 + math.sqrt(beta)
        for at, side, share in ((-1, "below", low), (1, "above", high)):
            # What the exact cumulants add to a normal law, to first order; the third adds nothing at one deviation.
            moved = stats.norm.pdf(1) * ((mean + beta / 2) / math.sqrt(beta) + at * (variance / beta - 1) / 2)
            room = abs(moved) + third**2 / beta**3 + 25 / config.width**2
            yield claim(f"{side}-{depth}", f"{name}: share of networks more than a deviation {side}").equal(
                stats.norm.cdf(-1), estimate(share), room, "the next order of cumulants"
            )
    for kind, widths in enumerate(_shapes(config.width)):
        name = f"{len(widths)} layers of {widths[-1]}" + (f", one of {widths[0]}" if widths[0] < widths[-1] else "")
        found, within = _spread(data["shape"].isel(kind=kind)), Tolerance(0.0, 5 / min(widths), order.why)
        yield claim(f"shape-{kind + 1}", f"variance of the log by depth over width: {name}").equal(
            rp.aspect((1, *widths)), found, within
        )
    value, error, freedom = estimate(1 + (data.length.sel(layer=FEW) - 1) ** 2)  # the mean itself is known to be 1
    rate = config.width / FEW
    growth = lab.Estimate(math.log(value) * rate, error / value * rate, freedom)
    yield claim("fourth-powers", "log of mean fourth powers: its growth with depth over width").equal(
        5.0, growth, 0, r"the next order of $\log(1 + 5/n)$", relative=2.5 / config.width
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2)
    for i, depth in enumerate(config.depths):
        beta = rp.aspect((1, *[config.width] * depth))
        grid = -beta / 2 + math.sqrt(beta) * np.linspace(-4, 4, 200)
        left.hist(data.log.sel(depth=depth), bins=60, density=True, color=f"C{i}", alpha=0.45, label=f"{depth} layers")
        sheet.guide(left, grid, stats.norm.pdf(grid, -beta / 2, math.sqrt(beta)), "normal law" if i == 0 else None)
    sheet.label(left, f"Signals at width {config.width}", "log of $|h|^2$ over its mean", "density", "upper left")
    squares = 1 + (data.length - 1) ** 2
    ratio, error = data.layer / config.width, 2 * squares.std("draw") / math.sqrt(config.draws)
    name = f"networks of width {config.width}"
    right.errorbar(ratio, squares.mean("draw"), error, fmt="o", ms=5, capsize=3, color="C0", label=name)
    sheet.guide(right, ratio, np.exp(5 * ratio), "$e^{5L/n}$")
    spread = "mean over squared mean square"
    sheet.label(right, "Fourth powers of gradients", "depth over width, $L/n$", spread, "upper left")
