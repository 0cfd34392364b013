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
    r"""Under steepest descent with $\eta \le 1/(B^2L(w_0))$ on the exponential loss of separable data, $L(w_t)$ never
    grows and goes to zero. The sum $\sum_t\|\nabla L(w_t)\|_*^2$ is finite, but $\sum_t\|\nabla L(w_t)\|_* = \infty$.
    The sum of squares is at most $2L(w_0)/\eta$, and the loss at most $2/(\eta\gamma^2t)$. The sum of lengths grows at
    least as the logarithm of the loss over the largest sample.
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
    half, t, late = config.steps // 2, np.arange(1, config.steps + 1), math.log(config.steps)
    for name in data.norm.values:
        one = data.sel(norm=name)
        lr, gamma, start, g = float(one.lr), float(one.margin), float(first.sel(norm=name)), gradient.sel(norm=name)
        rise = one.log_loss.diff("step").max()
        yield claim(f"descent-{name}", rf"{name}: largest growth of $\log L$ in a step").at_most(
            0.0, rise, "it never grows"
        )
        squares = (g**2).sum() * lr / (2 * start)
        yield claim(f"squares-{name}", rf"{name}: sum of squared gradients over $2L(w_0)/\eta$").at_most(
            1.0, squares, "by the descent of each step"
        )
        why = r"a step descends by at most $\frac32\eta$ times the squared gradient, and the loss is nearly gone"
        yield claim(f"squares-least-{name}", f"{name}: the same sum, bounded from below").at_least(0.25, squares, why)
        yield claim(f"loss-{name}", rf"{name}: largest $L(w_t)$ over $2/(\eta\gamma^2t)$").at_most(
            1.0,
            (np.exp(one.log_loss.values[1:]) * t).max() * lr * gamma**2 / 2,
            r"by the descent of each step, and a gradient of at least $\gamma L$",
        )
        # log L falls by at most B |w_{t+1} - w_t|, which is eta |grad L|*.
        fall, note = float(one.log_loss[0] - one.log_loss[-1]), "it grows without end as the loss goes to zero"
        yield claim(f"sum-{name}", rf"{name}: sum of gradients over $\log(L(w_0)/L(w_t))/(B\eta)$").at_least(
            1.0, g[:-1].sum() * lr * float(one["size"]) / fall, "by the largest sample", note=note
        )
        growth = float(g[half:-1].sum()) * lr * gamma / math.log(config.steps / half)
        yield claim(
            f"growth-{name}", rf"{name}: growth of $\eta\gamma$ times the sum of gradients with $\log t$"
        ).equal(1.0, growth, 4 / late, r"corrections of a few over $\log t$")
        power = float(one.log_loss[-1] - one.log_loss[half]) / math.log(config.steps / half)
        yield claim(f"power-{name}", f"{name}: power of $t$ in the loss").equal(
            -1.0, power, 2 / late, r"corrections of a few over $\log t$"
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    loss, squares, sums = sheet.panels(figure, (13, 4.2), 3)
    gradient, t = np.exp(data.log_loss) * data.slope, data.step[1:]
    for i, name in enumerate(data.norm.values):
        g, one, look = gradient.sel(norm=name), data.sel(norm=name), {"color": f"C{i}"}
        lr, gamma, start = float(one.lr), float(one.margin), float(np.exp(one.log_loss[0]))
        loss.loglog(t, np.exp(one.log_loss)[1:], label=name, **look)
        sheet.guide(loss, t, 2 / (lr * gamma**2 * t), "bounds" if i == 0 else None, **look)
        squares.semilogx(t, np.cumsum(g**2)[1:] * lr / (2 * start), **look)
        sums.semilogx(t, np.cumsum(g)[1:] * lr * gamma, **look)
    sheet.mark(squares, y=1.0, label="bound")
    sheet.guide(sums, t, np.log(t), r"$\log t$")
    sheet.label(loss, "The loss", "step", "$L$", "lower left")
    ratio = r"$\eta\sum\|\nabla L\|_*^2/2L(w_0)$"
    sheet.label(squares, "Squared gradients have a sum", "step", ratio, "lower right")
    sheet.label(sums, "Gradients have none", "step", r"$\eta\gamma\sum\|\nabla L\|_*$", "upper left")
