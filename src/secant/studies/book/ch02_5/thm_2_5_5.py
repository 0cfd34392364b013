"""Theorem 2.5.5: AdaGrad with a step size for each coordinate, of the past alone."""

import math
from collections.abc import Callable

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, sheet, study
from secant.optim import optimisers
from secant.studies.shared.landscapes import sines
from secant.studies.shared.numerics.differences import largest
from secant.studies.shared.numerics.orbits import orbit
from secant.theory.descent import rates

SIGMA = 0.5
"""Bound of the valley's gradients, in units of its curvature. With it the first step leads to the other side."""

START = 0.2
"""First place in the valley."""


class Config(Seeded):
    dim: int = options.dim(6, at_most=100)
    waves: int = option(30, at_least=2, at_most=500, help="cosines of the noisy loss, one drawn in each step")
    coordinates: int = option(100, at_least=60, at_most=2_000, help="dimension of the valley")
    steps: int = options.steps(200, 3_000, at_least=20, at_most=10_000)
    draws: int = options.draws(50, 400, at_least=4, at_most=1_000)


@study("book/thm-2.5.5", section="2.5", title="AdaGrad with a step size for each coordinate")
def run(config: Config) -> xr.Dataset:
    r"""Let $A_t(j) = \sum_{i\le t}\hat\nabla_i(j)^2$, $|\hat\nabla_t(j)| \le \sigma$ and $P_t(j) = (A_{t-1}(j) +
    \sigma^2)^{-1/2}$. The steps $P_t\hat\nabla_t$ on a $\beta$-smooth loss then have $\mathbb
    E\sum_{t,j}\nabla_t(j)^2P_t(j) \le M + \frac\beta2\sum_j\log_2(1 + A_T(j)/\sigma^2) \le M +
    \frac{d\beta}2\log_2(1 + T)$. A bound of $\frac1T\sum_t|\nabla_t|^2$ follows, with noise and without.
    """
    random = np.random.default_rng(config.seed)
    w = sines.paths(optimisers.adagrad_delayed(), random, config.draws, config.dim, config.steps)
    a = random.standard_normal((config.waves, config.dim)) / math.sqrt(config.dim)
    weighted, bound = _noisy(random, a, w[:, 0], config.steps)
    return xr.Dataset(
        {
            "w": (("draw", "point", "dim"), w),
            "noisy": ("draw", weighted),
            "bound": ("draw", bound),
            "valley": ("point", _walk(lambda w: w, START, SIGMA, config.steps)),
            "slope": ("point", _walk(lambda w: 1 / config.steps, 0.0, 1.0, config.steps)),
        }
    )


def _walk(gradient: Callable[[float], float], w: float, sigma: float, steps: int) -> np.ndarray:
    """The path of one coordinate."""
    step = lambda at: (at[0] - gradient(at[0]) / math.sqrt(at[1]), at[1] + gradient(at[0]) ** 2)  # noqa: E731
    return np.array(orbit(step, (w, sigma**2), steps))[:, 0]


def _noisy(random: np.random.Generator, a: np.ndarray, w: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Both sides of the first inequality, on the mean of cos(a_i.w) with one wave a step."""
    sigma, smooth = float(np.abs(a).max()), float(np.linalg.norm(a, 2) ** 2 / len(a))
    value = lambda w: np.cos(w @ a.T).mean(1)  # noqa: E731
    first, total, weighted = value(w), np.zeros_like(w), np.zeros(len(w))
    for _ in range(steps):
        sines = np.sin(w @ a.T)
        P = 1 / np.sqrt(total + sigma**2)
        weighted += ((sines @ a / len(a)) ** 2 * P).sum(1)
        which = random.integers(len(a), size=len(w))
        seen = -sines[np.arange(len(w)), which, None] * a[which]
        w, total = w - P * seen, total + seen**2
    return weighted, first - value(w) + smooth / 2 * np.log2(1 + total / sigma**2).sum(1)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    w = data.w.values
    g, values = np.cos(w[:, :-1]), np.sin(w).sum(-1)
    A = np.cumsum(g**2, 1)
    by = np.sqrt(A - g**2 + 1)
    yield claim("steps", r"largest difference of the optimiser's steps from $-P\nabla$").zero(
        largest(np.diff(w, axis=1) + g / by), 1e-12, "rounding"
    )
    pairs = [rates.delayed_harmonic(one, 1.0) for one in (g**2).transpose(0, 2, 1).reshape(-1, config.steps)]
    sentence = r"sum of $\nabla_t^2/(A_{t-1} + \sigma^2)$ over $\log_2(1 + A_T/\sigma^2)$, all coordinates"
    yield claim("harmonic", sentence).at_most(
        1, max(found / bound for found, bound in pairs), "the harmonic lemma, up to rounding", slack=1e-10
    )
    drop = values[:, 0] - values[:, -1]
    top = drop + np.log2(1 + A[:, -1]).sum(-1) / 2
    yield claim("sines-weighted", r"sines: sum of $\nabla\cdot P\nabla$ over its bound").at_most(
        1, ((g**2 / by).sum((1, 2)) / top).max(), "the descent, summed"
    )
    bounds = [rates.adagrad_delayed(m, 1.0, one, 1.0) for m, one in zip(drop, g**2, strict=True)]
    yield claim("sines-mean", r"sines: mean $|\nabla|^2$ over its bound").at_most(
        1, (A[:, -1].sum(-1) / config.steps / bounds).max(), "the theorem"
    )
    excess = estimate((data.noisy - data.bound) / float(data.bound.mean()))
    yield claim("noise", r"one wave a step: mean sum of $\nabla\cdot P\nabla$ less its bound, over the bound").at_most(
        0, excess, "the same on average, with noise"
    )
    yield from printed(data, config)


def printed(data: xr.Dataset, config: Config) -> Findings:
    """The printed bounds in a valley of many dimensions, and on a gentle slope in one dimension."""
    d, T = config.coordinates, config.steps
    w = data.valley.values
    squares = w[:-1] ** 2
    P = 1 / np.sqrt(np.cumsum(squares) - squares + SIGMA**2)
    rest = d * (squares * P).sum() - d * (w[0] ** 2 - w[-1] ** 2) / 2
    sentence = rf"valley of {d} dimensions: sum of $\nabla\cdot P\nabla$ less $M$, over $\beta$, at most"
    yield claim("valley", sentence).erratum(
        (r"\log GT", math.log(math.sqrt(d) * abs(w[:-1]).max() * T)),
        (r"\tfrac d2\log_2(1 + T)", d / 2 * math.log2(1 + T)),
        rest,
        0,
        "a bound",
        relation="at most",
        where="theorem 2.5.5",
        note="a logarithm for each coordinate is summed over all, and their number is lost",
    )
    ratio = rest / (d / 2 * math.log2(1 + squares.sum() / SIGMA**2))
    yield claim("valley-measured", r"valley: the same sum over $(d/2)\log_2(1 + A_T(j)/\sigma^2)$").at_most(
        1, ratio, "the bound by what was measured"
    )
    # A slope of G = 1/T in one dimension: no smoothness is needed, and log GT = 0.
    G, drop = 1 / T, -float(data.slope[-1]) / T
    yield claim("slope", r"slope of $G = 1/T$: mean $|\nabla|^2$ over $G^2$, at most").erratum(
        (r"(M + \beta\log GT)\sum_j\sqrt{A_T(j)}/T", drop * G * math.sqrt(T) / T / G**2),
        (r"S\max_j\sqrt{A_{T-1}(j) + \sigma^2}/T", rates.adagrad_delayed(drop, 0.0, np.full((T, 1), G**2), 1.0) / G**2),
        1.0,
        0,
        "a bound",
        relation="at most",
        where="theorem 2.5.5",
        note=r"the inverse of $P_T(j)$ is the root with $\sigma^2$, of the gradients before $T$",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.2), 2)
    w, d, T = data.valley.values, config.coordinates, np.arange(1, config.steps + 1)
    shown = min(config.steps, 12)
    x = np.linspace(-0.25, 0.25, 200)
    left.plot(x, x**2 / 2, color=sheet.ink(), lw=1)
    at = w[: shown + 1]
    marks = left.scatter(at, at**2 / 2, c=np.arange(shown + 1), s=18, zorder=3)
    left.plot(at, at**2 / 2, lw=0.4, color=sheet.faint())
    figure.colorbar(marks, ax=left, label="step")
    sheet.label(left, "One of many equal coordinates", "$w_j$", None)
    squares = w[:-1] ** 2
    P = 1 / np.sqrt(np.cumsum(squares) - squares + SIGMA**2)
    drop = d * (w[0] ** 2 - w[1:] ** 2) / 2
    right.plot(T, d * np.cumsum(squares * P), label=r"$\sum_{t,j}\nabla_t(j)^2P_t(j)$")
    right.plot(T, drop + np.log(math.sqrt(d) * START * T), "--", color="C1", label=r"$M + \beta\log GT$, printed")
    sheet.guide(right, T, drop + d / 2 * np.log2(1 + np.cumsum(squares) / SIGMA**2), "corrected, by what was measured")
    sheet.guide(right, T, drop + d / 2 * np.log2(1 + T), r"$M + \frac{d\beta}{2}\log_2(1 + T)$", ls=":")
    sheet.label(right, f"A valley of {d} dimensions", "steps $T$", None, "best", xscale="log", yscale="log")
