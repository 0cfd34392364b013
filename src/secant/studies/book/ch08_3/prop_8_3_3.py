"""Proposition 8.3.3: the gradient of the exponential loss is at least the margin times the loss."""

import math

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, claim, option, options, scaled, sheet, study
from secant.studies.shared import real, separable
from secant.theory.bias.margins import dual, max_margin, norm_of

NORMS = (1.0, 1.5, 2.0, 4.0, math.inf)
SCALES = (0.01, 1.0, 10.0, 1_000.0)
"""Of random weights: all samples count alike at the first, one alone at the last."""


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
    $w$. The constant is the largest: $\nabla L/L$ is a sum of samples with weights of sum 1, and $\gamma$ is the least
    dual norm of all of them, which steepest descent approaches.
    """
    random = np.random.default_rng(config.seed)
    Z = separable.chosen(config, random).z
    best = [max_margin(Z, p) for p in NORMS]
    w = random.normal(size=(len(SCALES), config.draws, config.dim)) * np.array(SCALES)[:, None, None]
    mean = separable.weights(w @ Z.T) @ Z
    ratio = [np.apply_along_axis(norm_of, -1, mean, dual(p)) / one.margin for p, one in zip(NORMS, best, strict=True)]
    size = [max(norm_of(z, dual(p)) for z in Z) for p in NORMS]
    path = separable.descend(
        Z, NORMS, random.normal(size=config.dim), config.steps, [1 / B**2 for B in size], [math.inf] * len(NORMS)
    )
    return xr.Dataset(
        {
            "ratio": (("norm", "scale", "draw"), np.stack(ratio)),
            "path": (("norm", "step"), path.slope / np.array([one.margin for one in best])[:, None]),
            "attained": (
                "norm",
                [
                    norm_of(one.multipliers @ Z, dual(p)) / one.multipliers.sum() / one.margin
                    for p, one in zip(NORMS, best, strict=True)
                ],
            ),
            "margin": ("norm", [one.margin for one in best]),
        },
        coords={"norm": [label(p) for p in NORMS], "scale": list(SCALES), "step": np.arange(config.steps + 1)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for name in data.norm.values:
        one = data.sel(norm=name)
        yield claim(
            f"{name}-grad-l-gamma-{config.draws * len(SCALES):,}",
            f"{name}: |grad L|*/(gamma L), least of {config.draws * len(SCALES):,} random weights",
        ).at_least(1.0, one.ratio.min(), "an inequality, to rounding", slack=1e-10)
        yield claim(f"{name}-same-along-descent", f"{name}: the same along descent").at_least(
            1.0, one.path.min(), "the same", slack=1e-10
        )
        yield claim(f"{name}-same-samples-weighed", f"{name}: the same for samples weighed by the multipliers").equal(
            1.0, one.attained, 1e-8, "a solver's rounding", note="no constant above the margin would do"
        )
        yield claim(f"{name}-least-along-descent", f"{name}: its least along descent").at_most(
            1.05,
            one.path.min(),
            "it comes down to one; named beforehand",
            note="coordinates and signs take turns: not every step is near",
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    places = np.arange(len(SCALES))
    for i, name in enumerate(data.norm.values):
        values = data.ratio.sel(norm=name)
        low, middle, high = (values.quantile(q, "draw") for q in (0.0, 0.5, 1.0))
        left.errorbar(
            places + 0.12 * (i - 2),
            middle,
            [middle - low, high - middle],
            fmt="o",
            ms=4,
            capsize=2,
            color=f"C{i}",
            label=name,
        )
        right.plot(data.step[1:], (data.path.sel(norm=name) - 1)[1:], color=f"C{i}", label=name)
    sheet.mark(left, y=1.0, label="the bound")
    sheet.label(
        left,
        "Random weights",
        "their scale",
        r"$\|\nabla L\|_*/(\gamma L)$",
        "upper left",
        yscale="log",
        xticks=places,
        xticklabels=[f"{scale:g}" for scale in SCALES],
    )
    sheet.label(
        right, "Along steepest descent", "step", r"$\|\nabla L\|_*/(\gamma L) - 1$", "best", xscale="log", yscale="log"
    )
