"""Section 8.3.2: bounds on loss, norm and margin after every finite number of steps."""

import math

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, claim, option, options, scaled, sheet, study
from secant.studies.shared import real, separable
from secant.theory.bias.margins import dual, max_margin, norm_of

NORMS = (1.0, 2.0, math.inf)
CAPS = (math.inf, 1.0)
"""Largest steps: no limit, and a limit that brings the last term of the bound to zero."""


class Config(real.Chosen):
    data: str = scaled(smoke="random", laptop="breast-cancer", help="random, or a data set that secant.data knows")
    samples: int = options.samples(20, 100, at_least=4, at_most=1_000)
    dim: int = options.dim(5, 31, at_least=2, at_most=100)
    gap: float = option(0.5, at_least=0.2, at_most=5, help="distance of random samples from a plane between them")
    steps: int = options.steps(1_500, 50_000, at_least=500, at_most=10**6)
    draws: int = options.draws(200, at_least=10, at_most=10**4)


@study("book/finite-time", section="8.3", title="Bounds after finitely many steps")
def run(config: Config) -> xr.Dataset:
    r"""Take steepest descent with $\eta_t \le \min(\eta_+, 1/(B^2L(w_t)))$ on the exponential loss, and let
    $\gamma_t = \|\nabla L(w_t)\|_*$. Then $L_{t+1} \le L_t - \eta_t\gamma_t^2 + \frac12\eta_t^2B^2L_t\gamma_t^2$
    (8.28), which sums up to (8.29);
    $\min_iy_iw_{t+1}\cdot x_i \ge \sum_u\eta_u\gamma_u^2/L_u - \sum_u\frac12\eta_u^2B^2\gamma_u^2 - \log L_0$ (8.31);
    $\|w_{t+1}\| \le \|w_0\| + \sum_u\eta_u\gamma_u$ (8.32). So the margin is at least
    $\gamma\,\frac{\sum\eta\gamma_u}{\sum\eta\gamma_u + \|w_0\|}
    - \frac{\frac12\sum\eta^2B^2\gamma_u^2 + \log L_0}{\|w_{t+1}\|}$ (8.34).
    """
    random = np.random.default_rng(config.seed)
    Z = separable.chosen(config, random).z
    pairs = [(p, cap) for cap in CAPS for p in NORMS]
    size = np.array([max(norm_of(z, dual(p)) for z in Z) for p in NORMS])
    start = random.normal(size=config.dim)
    path = separable.descend(
        Z,
        [p for p, _ in pairs],
        start,
        config.steps,
        np.tile(1 / size**2, 2),
        [cap / B**2 for (_, cap), B in zip(pairs, np.tile(size, 2), strict=True)],
    )
    w, v = random.normal(size=(2, config.draws, config.dim))
    p = separable.weights(w @ Z.T)
    bend = (p * (v @ Z.T) ** 2).sum(1)
    shape = (len(CAPS), len(NORMS), -1)
    lengths = np.stack([[norm_of(one, norm) for one in v] for norm in NORMS])
    return xr.Dataset(
        {name: (("cap", "norm", "step"), getattr(path, name).reshape(shape)) for name in ("log_loss", "slope", "least")}
        | {
            "length": (("cap", "norm", "step"), path.size.reshape(shape)),
            "share": (("cap", "norm", "move"), path.share.reshape(shape)),
            "size": ("norm", size),
            "margin": ("norm", [max_margin(Z, norm).margin for norm in NORMS]),
            "bend": (("norm", "draw"), bend / (size[:, None] * lengths) ** 2),
        },
        coords={"norm": ["l1", "l2", "linf"], "cap": list(CAPS), "step": np.arange(config.steps + 1)},
    )


BOUNDED = {
    "8.28": "$L_{t+1}$ over $L_t$",
    "8.29": r"$\log L_{t+1}$",
    "8.31": "the least margin",
    "8.32": "the norm",
    "8.34": "the margin over the norm",
}
"""What each inequality bounds."""


def bounds(one: xr.Dataset) -> dict[str, np.ndarray]:
    """Slacks of every bound at every step, and the bound (8.34) itself. All slacks should be at least zero."""
    B, gamma, share, slope = float(one["size"]), float(one.margin), one.share.values, one.slope.values[:-1]
    log, least, length = one.log_loss.values, one.least.values, one.length.values
    gain, lost = share * slope**2, share**2 * B**2 * slope**2 / 2  # eta gamma_t^2/L and eta^2 B^2 gamma_t^2/2
    path = np.cumsum(share * slope)
    bound = gamma * path / (path + length[0]) - (np.cumsum(lost) + log[0]) / length[1:]
    return {
        "8.28": 1 - gain + lost - np.exp(np.diff(log)),
        "8.29": log[0] - np.cumsum(gain) + np.cumsum(lost) - log[1:],
        "8.31": least[1:] - (np.cumsum(gain) - np.cumsum(lost) - log[0]),
        "8.32": length[0] + path - length[1:],
        "8.34": least[1:] / length[1:] - bound,
        "bound": bound,
    }


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for name in data.norm.values:
        for cap in CAPS:
            one = data.sel(norm=name, cap=cap)
            slacks = bounds(one)
            last = slacks.pop("bound")[-1] / float(one.margin)
            short, words = ("free", "no cap") if cap == math.inf else ("capped", "steps up to $1/B^2$")
            room = 1e-12 * max(1.0, np.abs(one.log_loss.values).max())
            for equation, slack in slacks.items():
                yield claim(
                    f"{equation}-{name}-{short}", f"{name}, {words}: least slack of ({equation}), {BOUNDED[equation]}"
                ).at_least(0.0, slack.min(), "an inequality, to rounding", slack=room)
            if cap == math.inf:
                why = "half of it: with steps $1/(B^2L)$ its last term is half of its first"
                note = "so the proof of the theorem needs the cap; the margin itself gets there without"
                promise = f"{name}, {words}: what (8.34) promises of the largest margin at the end"
                yield claim(f"promise-{name}", promise).at_most(0.55, last, why, note=note)
        yield claim(f"hessian-{name}", rf"{name}: $v\cdot(\nabla^2L\,v)/(LB^2|v|^2)$, random $w$ and $v$").at_most(
            1.0, data.bend.sel(norm=name).max(), "an inequality"
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    titles = r"Steps $1/(B^2L)$: promised is half", r"Steps of at most $1/B^2$ as well"
    for axes, cap, title in zip(sheet.panels(figure, (10.5, 4.2), 2), CAPS, titles, strict=True):
        for i, name in enumerate(data.norm.values):
            one, first = data.sel(norm=name, cap=cap), "(8.34)" if i == 0 else None
            axes.plot(data.step[1:], (one.least / one.length / one.margin)[1:], color=f"C{i}", label=name)
            sheet.guide(axes, data.step[1:], bounds(one)["bound"] / float(one.margin), first, color=f"C{i}")
        sheet.mark(axes, y=1.0)
        sheet.label(axes, title, "step", r"margin over $\gamma$", "center left", xscale="log", ylim=(-2, 1.1))
