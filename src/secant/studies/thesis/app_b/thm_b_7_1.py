"""Theorem B.7.1: above the maximal step size gradient descent diverges."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Outcome, Stop, simulate
from secant.lab import Erratum, Estimate, Figure, Findings, Tolerance, claims, fits_memory, option, scaled, sheet, study
from secant.setups.two_layer.models import starting_points
from secant.theory import catapult as ct
from secant.theory.power_law import fit_power_law


@dataclass(frozen=True)
class Config:
    """Widths and random networks."""

    widths: tuple[int, ...] = option(
        (100, 1_000, 10_000, 100_000), at_least=100, at_most=10**8, ascending=True, help="hidden neurons"
    )
    target: float = option(1.0, at_least=0.1, at_most=2, help="label of the sample")
    seeds: int = scaled(smoke=32, laptop=200, paper=1_000, at_least=2, at_most=10**6, help="random networks per width")
    steps: int = option(200, at_least=10, at_most=10**6, help="gradient-descent steps")
    seed: int = option(0, at_least=0, at_most=2**31, help="random seed")

    def check(self) -> None:
        """Refuses what no memory holds."""
        runs = len(self.widths) * self.seeds
        fits_memory(64.0 * runs * self.steps + 16.0 * max(self.widths), "seeds, steps or widths")


@study(
    "thesis/thm-B.7.1", section="B.7", title="Above 4 the curvature grows and the loss with it",
    statement=r"""
    If $\eta \ge (4 + \varepsilon)/\lambda_0$ with $\varepsilon = \Theta(\log m/\sqrt m)$, gradient descent
    diverges: the curvature increases.

    The gap $\varepsilon$ is an artefact of the proof: the exact border is within $O(1/m)$ of
    $4/\lambda_0$.""",
)
def run(config: Config) -> xr.Dataset:
    keys = jax.random.split(jax.random.key(config.seed), len(config.widths))
    draws = [starting_points(k, m, config.seeds) for k, m in zip(keys, config.widths, strict=True)]
    widths = jnp.repeat(jnp.asarray(config.widths, float), config.seeds)
    networks = {
        "output": jnp.concatenate([d[0] for d in draws]), "curvature": jnp.concatenate([d[1] for d in draws]),
        "width": widths,
    }
    border = ct.max_step(networks["output"], networks["curvature"], widths, config.target)
    data = simulate(
        lambda network: ct.catapult(
            (4 + jnp.log(network["width"]) / jnp.sqrt(network["width"])) / network["curvature"], network["width"],
            config.target,
        ),
        lambda network: (network["output"], network["curvature"]), config.steps, over={"network": networks},
        probes={"a": lambda s: s.a, "v": lambda s: s.v}, stop=Stop(diverged=lambda s: jnp.abs(s.a) > 1e6),
    ).dataset
    shape = (len(config.widths), config.seeds)
    bend = ct.rescaled_target((4 + jnp.log(widths) / jnp.sqrt(widths)) / networks["curvature"], widths, config.target)
    return xr.Dataset(
        {
            "a": (("width", "seed", "step"), data.a.values.reshape(*shape, -1)),
            "v": (("width", "seed", "step"), data.v.values.reshape(*shape, -1)),
            "outcome": (("width", "seed"), data.outcome.values.reshape(shape)),
            "bend": (("width", "seed"), np.asarray(bend).reshape(shape), {"long_name": "rescaled label"}),
            "border": (
                ("width", "seed"), np.asarray(border * networks["curvature"]).reshape(shape),
                {"long_name": "exact maximal step size times the initial curvature"},
            ),
        },
        coords={"width": list(config.widths), "step": data.step.values},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    name = "share of the runs at (4 + log m / sqrt m) / lambda_0 that diverge"
    under_way = (data.outcome == Outcome.UNFINISHED) & (data.v.isel(step=-1) > 4)
    if bool(under_way.any()):
        yield claims.undecided(
            name, 1.0, f"{config.steps} steps are too few: {int(under_way.sum())} runs are still growing"
        )
    else:
        yield claims.equal(name, 1.0, (data.outcome == Outcome.DIVERGED).mean(), 0, "the claim")
    name = "exponent in the width of the distance of the exact border from 4"
    if len(config.widths) < 2:
        yield claims.undecided(name, -1.0, "one width has no exponent")
    else:
        law = fit_power_law(data.width, np.abs(data.border - 4).transpose("width", "seed"))
        yield claims.equal(
            name, -1.0, Estimate(law.exponent, law.error, law.freedom), 1 / np.sqrt(min(config.widths)),
            "the curvature at the start varies by sqrt(2/m)", note="the theorem allows log m / sqrt m",
        )
    # Large is an output for which R_lambda has the sign of 4 - eta lambda, |g - y| (eta lambda - 4) > 4 |y|.
    large = (data.v > 4) & (np.abs(data.a) * (data.v - 4) > 4 * np.abs(data.bend)) & (np.abs(data.a) < 1e3)
    change = data.v.shift(step=-1) - data.v
    rises = (change > 0).where(large & np.isfinite(change))
    yield Erratum(
        "sign of R_lambda when the output is large", printed=r"R_\lambda(t) > 0", corrected=r"R_\lambda(t) < 0",
        printed_value=1.0, corrected_value=-1.0, measured=float(-(2 * rises - 1).mean()),
        tolerance=Tolerance(0.0, why="a sign"),
        why="R_lambda is subtracted in (3.12); with eta lambda > 4 it is negative, so the curvature increases.",
        where="section 3.3, divergence",
    )
    m = np.geomspace(1e4, 1e12, 9)
    epsilon = np.log(m) / np.sqrt(m)
    balance = (1 / (epsilon * np.sqrt(m))) ** 2  # epsilon u = sqrt(u / m), solved for u
    yield Erratum(
        "order of u at which w can stop the growth: power of log m", printed=r"u = O(1/\sqrt{\log m})",
        corrected=r"u = \Theta(1/\log^2 m)", printed_value=-0.5, corrected_value=-2.0,
        measured=float(np.polyfit(np.log(np.log(m)), np.log(balance), 1)[0]),
        tolerance=Tolerance(1e-6, why="an identity"),
        why="Balance epsilon u against sqrt(u/m) with epsilon = log m / sqrt m.", where="appendix B.7", by="derivation",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (11, 3.8), 3)
    ink = sheet.ink()
    for i, m in enumerate(data.width.values):
        one = data.sel(width=m).isel(seed=0)
        n = int(np.argmax((np.abs(one.a.values) > 1e3) | ~np.isfinite(one.a.values))) or data.sizes["step"]
        label = rf"$m = 10^{{{np.log10(m):.0f}}}$"
        left.semilogy(data.step[: n + 1], one.a[: n + 1] ** 2, "o-", ms=3, color=f"C{i}", label=label)
        middle.plot(data.step[: n + 1], one.v[: n + 1], "o-", ms=3, color=f"C{i}")
        right.plot(
            np.full(data.sizes["seed"], m), np.abs(data.border.sel(width=m) - 4), ".", ms=3, color=f"C{i}", alpha=0.6
        )
    left.set(title=r"The loss, $\eta\lambda_0 = 4 + \varepsilon$", xlabel="step", ylabel=r"$u \propto \mathcal{L}/m$")
    left.set_ylim(top=1e6)
    left.legend()
    middle.axhline(4, color=ink, lw=0.8, ls=":")
    middle.set(title="The curvature", xlabel="step", ylabel=r"$v = \eta\lambda$", ylim=(3.5, 8))
    m = data.width.values
    right.loglog(m, np.log(m) / np.sqrt(m), "--", color=ink, lw=1, label=r"$\log m/\sqrt{m}$")
    right.loglog(m, 10 / m, ":", color=ink, lw=1.2, label=r"slope $-1$")
    right.set(
        title="The exact border", xlabel="width $m$", ylabel=r"$|\eta_{\max}\lambda_0 - 4|$", xscale="log", yscale="log"
    )
    right.legend()
