"""Proposition 8.3.3: the gradient of the exponential loss is at least the margin times the loss."""

import math

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, claim, option, options, scaled, sheet, study
from secant.studies.shared import real, separable
from secant.theory.bias.margins import dual, max_margin, norm_of

NORMS = (1.0, 1.5, 2.0, 4.0, math.inf)
SCALES = (0.01, 1.0, 10.0, 1_000.0)
"""Scales of random weights: all samples count alike at the first scale, one alone counts at the last."""


class Config(real.Chosen):
    data: str = scaled(smoke="random", laptop="usps", help="random, or a data set that secant.data knows")
    classes: tuple[int, int] = option((3, 5), at_least=0, distinct=True, help="two classes of it, +1 and -1")
    samples: int = options.samples(20, 100, at_least=4, at_most=1_000)
    dim: int = options.dim(5, 50, at_least=2, at_most=100)
    gap: float = option(0.5, at_least=0.2, at_most=5, help="distance of random samples from a plane between them")
    draws: int = options.draws(500, 20_000, at_least=50, at_most=10**5)
    steps: int = options.steps(1_500, 20_000, at_least=1_000, at_most=10**6)


def label(norm: float) -> str:
    """What a norm is called."""
    return "linf" if norm == math.inf else f"l{norm:g}"


@study("book/prop-8.3.3", section="8.3", title="The gradient dominates the loss")
def run(config: Config) -> xr.Dataset:
    r"""For the exponential loss of data with margin $\gamma$ in a norm, $\|\nabla L(w)\|_* \ge \gamma L(w)$ at every
    $w$. No larger constant would do: $\nabla L/L$ is a sum of samples with weights of sum 1. The margin $\gamma$ is the
    least dual norm of all such sums, and steepest descent approaches it.
    """
    random = np.random.default_rng(config.seed)
    Z = separable.chosen(config, random).z
    best = [max_margin(Z, p) for p in NORMS]
    w = random.normal(size=(len(SCALES), config.draws, config.dim)) * np.array(SCALES)[:, None, None]
    mean = separable.weights(w @ Z.T) @ Z
    ratio = [np.apply_along_axis(norm_of, -1, mean, dual(p)) / one.margin for p, one in zip(NORMS, best, strict=True)]
    least = [norm_of(one.multipliers @ Z, dual(p)) / one.multipliers.sum() for p, one in zip(NORMS, best, strict=True)]
    attained = [size / one.margin for size, one in zip(least, best, strict=True)]
    size = [max(norm_of(z, dual(p)) for z in Z) for p in NORMS]
    path = separable.descend(
        Z, NORMS, random.normal(size=config.dim), config.steps, [1 / B**2 for B in size], [math.inf] * len(NORMS)
    )
    return xr.Dataset(
        {
            "ratio": (("norm", "scale", "draw"), np.stack(ratio)),
            "path": (("norm", "step"), path.slope / np.array([one.margin for one in best])[:, None]),
            "attained": ("norm", attained),
            "margin": ("norm", [one.margin for one in best]),
        },
        coords={"norm": [label(p) for p in NORMS], "scale": list(SCALES), "step": np.arange(config.steps + 1)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    ratio, many = r"$\|\nabla L\|_*/(\gamma L)$", config.draws * len(SCALES)
    for name in data.norm.values:
        one = data.sel(norm=name)
        yield claim(f"random-{name}", f"{name}: {ratio}, least of {many:,} random weights").at_least(
            1.0, one.ratio.min(), "an inequality, to rounding", slack=1e-10
        )
        yield claim(f"descent-{name}", f"{name}: {ratio}, least along descent").at_least(
            1.0, one.path.min(), "an inequality, to rounding", slack=1e-10
        )
        yield claim(f"multipliers-{name}", f"{name}: {ratio} for samples weighed by the multipliers").equal(
            1.0, one.attained, 1e-8, "a solver's rounding", note="no constant above the margin would do"
        )
        why, note = "it comes down to 1; named beforehand", "coordinates and signs take turns: not every step is near"
        yield claim(f"approach-{name}", f"{name}: {ratio}, how near its least along descent comes to 1").at_most(
            1.05, one.path.min(), why, note=note
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    places, dots = np.arange(len(SCALES)), {"fmt": "o", "ms": 4, "capsize": 2}
    for i, name in enumerate(data.norm.values):
        low, middle, high = (data.ratio.sel(norm=name).quantile(q, "draw") for q in (0.0, 0.5, 1.0))
        bars = [middle - low, high - middle]
        left.errorbar(places + 0.12 * (i - 2), middle, bars, color=f"C{i}", label=name, **dots)
        right.loglog(data.step[1:], (data.path.sel(norm=name) - 1)[1:], color=f"C{i}", label=name)
    left.set(yscale="log", xticks=places, xticklabels=[f"{scale:g}" for scale in SCALES])
    sheet.mark(left, y=1.0, label="the bound")
    sheet.label(left, "Random weights", "their scale", r"$\|\nabla L\|_*/(\gamma L)$", "upper left")
    sheet.label(right, "Along steepest descent", "step", r"$\|\nabla L\|_*/(\gamma L) - 1$", "best")
