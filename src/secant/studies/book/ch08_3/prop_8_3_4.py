"""Proposition 8.3.4: steepest descent with small steps brings the exponential loss to zero."""

import math

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, claim, option, options, scaled, sheet, study
from secant.studies.shared import real, separable
from secant.theory.bias.margins import dual, max_margin, norm_of

NORMS = (1.0, 2.0, math.inf)


class Config(real.Chosen):
    data: str = scaled(smoke="random", laptop="mnist", help="random, or a data set that secant.data knows")
    samples: int = options.samples(6, 100, at_least=4, at_most=1_000)
    dim: int = options.dim(4, 20, at_least=2, at_most=100)
    gap: float = option(1.0, at_least=0.2, at_most=5, help="distance of random samples from a plane between them")
    steps: int = options.steps(5_000, 50_000, at_least=2_000, at_most=10**6)


@study("book/prop-8.3.4", section="8.3", title="The loss goes to zero and the path is infinite")
def run(config: Config) -> xr.Dataset:
    r"""For steepest descent with $\eta \le 1/(B^2L(w_0))$ on the exponential loss of separable data: $L(w_t)$ never
    grows and goes to zero; $\sum_t\|\nabla L(w_t)\|_*^2 < \infty$; but $\sum_t\|\nabla L(w_t)\|_* = \infty$. The sum of
    squares is at most $2L(w_0)/\eta$, the loss at most $2/(\eta\gamma^2t)$, and the sum of lengths grows at least as
    the logarithm of the loss over the largest sample.
    """
    random = np.random.default_rng(config.seed)
    Z = separable.chosen(config, random).z
    start = random.normal(size=config.dim) / math.sqrt(config.dim)
    first = float(separable.log_loss(start @ Z.T))
    size = np.array([max(norm_of(z, dual(p)) for z in Z) for p in NORMS])
    lr = np.exp(-first) / size**2
    path = separable.descend(Z, NORMS, start, config.steps, [math.inf] * len(NORMS), lr)
    return xr.Dataset(
        {
            "log_loss": (("norm", "step"), path.log_loss),
            "slope": (("norm", "step"), path.slope),
            "length": (("norm", "step"), path.size),
            "lr": ("norm", lr),
            "size": ("norm", size),
            "margin": ("norm", [max_margin(Z, p).margin for p in NORMS]),
        },
        coords={"norm": ["l1", "l2", "linf"], "step": np.arange(config.steps + 1)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    first = np.exp(data.log_loss.isel(step=0))
    gradient = np.exp(data.log_loss) * data.slope
    for name in data.norm.values:
        one = data.sel(norm=name)
        lr, gamma, start, g = float(one.lr), float(one.margin), float(first.sel(norm=name)), gradient.sel(norm=name)
        yield claim(f"{name}-growth-log-l", f"{name}: largest growth of log L in a step").at_most(
            0.0, one.log_loss.diff("step").max(), "it never grows"
        )
        yield claim(f"{name}-sum-squared-gradients", f"{name}: sum of squared gradients over 2 L(w_0)/eta").at_most(
            1.0, (g**2).sum() * lr / (2 * start), "by the descent of each step"
        )
        yield claim(f"{name}-same", f"{name}: the same").at_least(
            0.25,
            (g**2).sum() * lr / (2 * start),
            "a step descends by at most 3/2 of eta times the squared gradient, and the loss is nearly gone",
        )
        t = np.arange(1, config.steps + 1)
        yield claim(f"{name}-l-w-t", f"{name}: largest L(w_t) over 2/(eta gamma^2 t)").at_most(
            1.0,
            (np.exp(one.log_loss.values[1:]) * t).max() * lr * gamma**2 / 2,
            "by the descent of each step, and gamma L",
        )
        # log L falls by at most B |w_{t+1} - w_t|, which is eta |grad L|*.
        fall = float(one.log_loss[0] - one.log_loss[-1])
        yield claim(f"{name}-sum-gradients-log", f"{name}: sum of gradients over log(L(w_0)/L(w_t))/(B eta)").at_least(
            1.0,
            g[:-1].sum() * lr * float(one["size"]) / fall,
            "by the largest sample",
            note="which grows without end as the loss goes to zero",
        )
        half = config.steps // 2
        growth = float(g[half:-1].sum()) * lr * gamma / math.log(config.steps / half)
        yield claim(
            f"{name}-growth-eta-gamma", f"{name}: growth of eta gamma times the sum of gradients with log t"
        ).equal(1.0, growth, 4 / math.log(config.steps), "corrections of a few over log t")
        exponent = float(one.log_loss[-1] - one.log_loss[half]) / math.log(config.steps / half)
        yield claim(f"{name}-power-t-loss", f"{name}: power of t in the loss").equal(
            -1.0, exponent, 2 / math.log(config.steps), "the same"
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    panels = sheet.panels(figure, (13, 4.2), 3)
    gradient, t = np.exp(data.log_loss) * data.slope, data.step[1:]
    for i, name in enumerate(data.norm.values):
        g, one = gradient.sel(norm=name), data.sel(norm=name)
        panels[0].plot(t, np.exp(one.log_loss)[1:], color=f"C{i}", label=name)
        sheet.guide(
            panels[0], t, 2 / (float(one.lr) * float(one.margin) ** 2 * t), "bounds" if i == 0 else None, color=f"C{i}"
        )
        panels[1].plot(t, np.cumsum(g**2)[1:] * float(one.lr) / (2 * float(np.exp(one.log_loss[0]))), color=f"C{i}")
        panels[2].plot(t, np.cumsum(g)[1:] * float(one.lr) * float(one.margin), color=f"C{i}")
    sheet.mark(panels[1], y=1.0, label="bound")
    sheet.guide(panels[2], t, np.log(t), r"$\log t$")
    sheet.label(panels[0], "The loss", "step", "$L$", "lower left", xscale="log", yscale="log")
    sheet.label(
        panels[1],
        "Squared gradients have a sum",
        "step",
        r"$\eta\sum\|\nabla L\|_*^2/2L(w_0)$",
        "lower right",
        xscale="log",
    )
    sheet.label(panels[2], "Gradients have none", "step", r"$\eta\gamma\sum\|\nabla L\|_*$", "upper left", xscale="log")
