"""Theorem B.7.1: above the maximal step size gradient descent diverges."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.dynamics import Outcome, Stop, simulate
from secant.lab import Figure, Findings, Seeded, claim, fits_memory, option, options, sheet, study, unfold
from secant.studies.shared.numerics.exponents import exponent, rate
from secant.studies.shared.two_layer.starts import random_starts
from secant.theory.catapult import one_sample as ct


class Config(Seeded):
    widths: tuple[int, ...] = options.widths((100, 1_000, 10_000, 100_000), at_least=100, at_most=10**8, ascending=True)
    target: float = option(1.0, at_least=0.1, at_most=2, help="label of the sample")
    draws: int = options.draws(32, 200, 1_000, at_least=2, at_most=10**6)
    steps: int = options.steps(200, at_least=10, at_most=10**6)

    def check(self) -> None:
        """Refuses what no memory holds."""
        runs = len(self.widths) * self.draws
        fits_memory(64.0 * runs * self.steps + 16.0 * max(self.widths), "draws, steps or widths")


@study("thesis/thm-B.7.1", section="B.7", title="Above 4 the curvature grows and the loss with it")
def run(config: Config) -> xr.Dataset:
    r"""If $\eta \ge (4 + \varepsilon)/\lambda_0$ with $\varepsilon = \Theta(\log m/\sqrt m)$, gradient descent
    diverges: the curvature increases.

    The gap $\varepsilon$ is an artefact of the proof: the exact border is within $O(1/m)$ of $4/\lambda_0$.
    """
    networks = random_starts(jax.random.key(config.seed), config.widths, config.draws)
    output, curvature, m = networks["output"], networks["curvature"], networks["width"]
    lr = (4 + np.log(m) / np.sqrt(m)) / curvature
    runs = simulate(
        lambda network: ct.catapult(network["lr"], network["width"], config.target),
        lambda network: (network["output"], network["curvature"]),
        config.steps,
        over={"network": networks | {"lr": lr}},
        probes={"a": lambda s: s.a, "v": lambda s: s.v},
        stop=Stop(diverged=lambda s: jnp.abs(s.a) > 1e6),
    ).dataset[["a", "v", "outcome"]]
    bend = np.asarray(jit(ct.rescaled_target, quick=True)(lr, m, config.target))
    border = np.asarray(jit(ct.max_step, quick=True)(output, curvature, m, config.target)) * curvature
    about = {"long_name": "exact maximal step size times the initial curvature"}
    runs = runs.assign(bend=("network", bend, {"long_name": "rescaled label"}), border=("network", border, about))
    return unfold(runs, "network", width=config.widths, seed=range(config.draws))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    under_way = (data.outcome == Outcome.UNFINISHED) & (data.v.isel(step=-1) > 4)
    growing = f"{config.steps} steps are too few: {int(under_way.sum())} runs are still growing"
    sentence = r"share of the runs at $(4 + \log m/\sqrt m)/\lambda_0$ that diverge"
    yield claim("diverge", sentence, given=not under_way.any(), otherwise=growing).equal(
        1.0, (data.outcome == Outcome.DIVERGED).mean(), 0, "the claim"
    )
    sentence, several = "exponent in the width of the distance of the exact border from 4", len(config.widths) > 1
    yield claim("border-law", sentence, given=several, otherwise="one width has no exponent").equal(
        -1.0,
        lambda: exponent(np.abs(data.border - 4)),
        1 / np.sqrt(min(config.widths)),
        r"the curvature at the start varies by $\sqrt{2/m}$",
        note=r"the theorem allows $\log m/\sqrt m$",
    )
    # Large is an output for which R_lambda has the sign of 4 - eta lambda, |g - y| (eta lambda - 4) > 4 |y|.
    large = (data.v > 4) & (np.abs(data.a) * (data.v - 4) > 4 * np.abs(data.bend)) & (np.abs(data.a) < 1e3)
    change = data.v.shift(step=-1) - data.v
    rises = (change > 0).where(large & np.isfinite(change))
    yield claim("sign", r"sign of $R_\lambda$ when the output is large").erratum(
        (r"R_\lambda(t) > 0", 1.0),
        (r"R_\lambda(t) < 0", -1.0),
        -(2 * rises - 1).mean(),
        0.0,
        "a sign",
        note=r"$R_\lambda$ is subtracted in (3.12); with $\eta\lambda > 4$ it is negative, so the curvature increases.",
        where="section 3.3, divergence",
    )
    m = np.geomspace(1e4, 1e12, 9)
    epsilon = np.log(m) / np.sqrt(m)
    balance = (1 / (epsilon * np.sqrt(m))) ** 2  # epsilon u = sqrt(u / m), solved for u
    yield claim("balance", r"order of $u$ at which $w$ can stop the growth: power of $\log m$").erratum(
        (r"u = O(1/\sqrt{\log m})", -0.5),
        (r"u = \Theta(1/\log^2 m)", -2.0),
        rate(np.log(m), balance),
        1e-6,
        "an identity",
        note=r"Balance $\varepsilon u$ against $\sqrt{u/m}$ with $\varepsilon = \log m/\sqrt m$.",
        where="appendix B.7",
        by="derivation",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (11, 3.8), 3)
    m = data.width.values
    for i, width in enumerate(m):
        one = data.sel(width=width).isel(seed=0)
        n = int(np.argmax((np.abs(one.a.values) > 1e3) | ~np.isfinite(one.a.values))) or data.sizes["step"]
        one, look = one.isel(step=slice(0, n + 1)), {"ms": 3, "color": f"C{i}"}
        left.semilogy(one.step, one.a**2, "o-", label=rf"$m = 10^{{{np.log10(width):.0f}}}$", **look)
        middle.plot(one.step, one.v, "o-", **look)
        right.plot(np.full(data.sizes["seed"], width), np.abs(data.border.sel(width=width) - 4), ".", alpha=0.6, **look)
    sheet.mark(middle, y=4, lw=0.8, ls=":")
    sheet.guide(right, m, np.log(m) / np.sqrt(m), r"$\log m/\sqrt{m}$", lw=1)
    sheet.guide(right, m, 10 / m, r"slope $-1$", ls=":")
    above, curvature = r"The loss, $\eta\lambda_0 = 4 + \varepsilon$", r"$v = \eta\lambda$"
    sheet.label(left, above, "step", r"$u \propto \mathcal{L}/m$", "best", ylim=(None, 1e6))
    sheet.label(middle, "The curvature", "step", curvature, ylim=(3.5, 8))
    logs, distance = {"xscale": "log", "yscale": "log"}, r"$|\eta_{\max}\lambda_0 - 4|$"
    sheet.label(right, "The exact border", "width $m$", distance, "best", **logs)
