"""Lemma 3.3.2: the increasing phase."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Stop, simulate
from secant.lab import Erratum, Estimate, Figure, Findings, Tolerance, claims, option, scaled, sheet, study
from secant.setups.two_layer.models import starting_points
from secant.theory import catapult as ct
from secant.theory import catapult_scaling as cs
from secant.theory.power_law import fit_power_law


@dataclass(frozen=True)
class Config:
    """Widths, step sizes and the constant of the lemma."""

    widths: tuple[float, ...] = option(
        (1e5, 1e6, 1e8, 1e10), at_least=10, at_most=1e12, ascending=True, help="hidden neurons"
    )
    excesses: tuple[float, ...] = option(
        (0.3, 0.6, 1.0, 1.5), at_least=0.05, at_most=1.95, ascending=True, help="step size times curvature, minus 2"
    )
    start: float = option(
        1.0, at_least=1e-3, at_most=1e3, help="width times the rescaled squared residual at the start"
    )
    pull: float = option(
        0.5, above=0, at_most=100, help="the constant C, step size times label times input norm over sqrt(d)"
    )
    constant: float = option(0.02, at_least=1e-4, at_most=10, help="the lemma's constant C'_u")
    networks: int = scaled(
        smoke=400, laptop=2_000, paper=4_000, at_least=10, at_most=10**5, help="networks for the scale of w(0)"
    )
    seed: int = option(0, at_least=0, at_most=2**31, help="random seed")


@study(
    "thesis/lem-3.3.2", section="3.3.2", title="The rise: exponential, with frozen curvature",
    statement=r"""
    While $u(t) \le C_u'\,\delta^2/\log m$, the square $u$ grows by at least
    $(1 + \delta - C_\kappa\delta/\log m)^2$ a step, and $|v(t) - v(0)| \le C_v\,\delta/\log m$, with
    $C_v = 28C_u'$ and $C_\kappa = 28C_u' + C_u'\delta + C\sqrt{C_u'}$.""",
)
def run(config: Config) -> xr.Dataset:
    widths = jnp.asarray(config.widths)
    traj = simulate(
        lambda width, excess, sign: ct.reduced_catapult(sign * config.pull / jnp.sqrt(width)),
        lambda width, excess: (jnp.sqrt(config.start / width), 2 + excess), 400,
        over={"width": widths, "excess": jnp.asarray(config.excesses), "sign": jnp.array([-1.0, 1.0])},
        probes={
            "square": lambda s: s.a**2, "curvature": lambda s: s.v,
            "growth": lambda s, width, sign: ct.growth(s.a, s.v, sign * config.pull / jnp.sqrt(width)) ** 2,
        },
        stop=Stop(
            converged=lambda s, width, excess: (
                s.a**2 > 2 * cs.increasing_phase(excess, width, config.pull, config.constant).square
            )
        ),
    ).dataset
    grid_width, grid_excess = np.meshgrid(config.widths, config.excesses, indexing="ij")
    bounds = cs.increasing_phase(grid_excess, grid_width, config.pull, config.constant)
    applies = cs.increasing_phase_applies(grid_excess, grid_width, config.start, config.pull, config.constant)
    data = traj[["square", "curvature", "growth"]].assign(
        {
            "level": (("width", "excess"), np.asarray(bounds.square)),
            "growth_floor": (("width", "excess"), np.asarray(bounds.growth)),
            "drift_ceiling": (("width", "excess"), np.asarray(bounds.drift)),
            "applies": (("width", "excess"), np.asarray(applies)),
        }
    )
    # the scale of w(0), from real networks
    small = (100, 1_000, 10_000)
    keys = jax.random.split(jax.random.key(config.seed), len(small))
    pulls = []
    for key, m in zip(keys, small, strict=True):
        output, curvature = starting_points(key, m, config.networks)
        lr = 3 / curvature
        state = ct.rescale(output, curvature, lr, m, config.pull)
        pulls.append(np.asarray(jnp.abs(state.a * ct.rescaled_target(lr, m, config.pull))))
    return data.assign(w0=(("small_width", "network"), np.stack(pulls))).assign_coords(small_width=list(small))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    rising = (data.square <= data.level) & data.applies
    growth = "growth of u per step over its guaranteed floor, smallest"
    drift = "drift of v over its guaranteed ceiling, largest"
    if not bool(rising.any()):
        why = "the lemma asks for larger widths than these: there is no step at which it promises anything"
        yield claims.undecided(growth, 1.0, why, "at least")
        yield claims.undecided(drift, 1.0, why, "at most")
    else:
        covered = f"the conditions hold at {int(data.applies.sum())} of {data.applies.size} widths and step sizes"
        yield claims.at_least(
            growth, 1.0, (data.growth / data.growth_floor).where(rising).min(), "a proven bound", note=covered
        )
        yield claims.at_most(
            drift, 1.0, (np.abs(data.curvature - 2 - data.excess) / data.drift_ceiling).where(rising).max(),
            "a proven bound", note=covered,
        )
    law = fit_power_law(data.small_width, data.w0.transpose("small_width", "network"))
    yield Erratum(
        "scale of w at the start: exponent of the width", printed=r"|w(0)| \le C\sqrt{C_u}\,m^{-3/2}",
        corrected=r"|w(0)| \le C\sqrt{C_u}\,m^{-1}", printed_value=-1.5, corrected_value=-1.0,
        measured=Estimate(law.exponent, law.error, law.freedom),
        tolerance=Tolerance(0.02, why="the curvature varies by sqrt(2/m) at width 100, of which the square enters"),
        why="From |w| = C sqrt(u/m) and u(0) <= C_u/m; the main text has it right.",
        where="appendix B.4 (and C_u C m^{-3/2} in B.3)",
    )
    # The two that follow are arithmetic of the proof, at constants of their own.
    start, excess, pull, constant = 100.0, 0.5, 0.5, 0.02
    ratio = 28 * constant + constant * excess + pull * np.sqrt(constant)
    widths = np.arange(2, 200_000)
    fine = start * (1 + pull) / widths <= ratio * excess / np.log(widths)
    smallest = widths[np.flatnonzero(~fine)[-1] + 1]
    lower, upper = 10.0, 1e6
    need = start * (pull + 1) / (ratio * excess)
    for _ in range(80):
        middle = np.sqrt(lower * upper)
        lower, upper = (middle, upper) if middle / np.log(middle) < need else (lower, middle)
    yield Erratum(
        "smallest width of the first condition (C_u = 100, delta = 1/2)",
        printed=r"m \ge \frac{C_\kappa\,\delta}{C_u(C + 1)}",
        corrected=r"\frac{m}{\log m} \ge \frac{C_u(C + 1)}{C_\kappa\,\delta}",
        printed_value=float(ratio * excess / (start * (pull + 1))), corrected_value=float(upper),
        measured=float(smallest), tolerance=Tolerance(1.0, why="whole widths"),
        why="The step uses C_u(1 + C)/m <= C_kappa delta/log m; the fraction is upside down and the logarithm is lost.",
        where="Lemma 3.3.2, formal statement, appendix B.4", by="derivation",
    )
    log = np.log(1e6)
    yield Erratum(
        "expansion of the growth floor (m = 10^6, delta = 1/2)",
        printed=r"(1 - \tfrac{C_\kappa\delta}{\log m})^2\delta^2 + 2(1 - \tfrac{C_\kappa\delta}{\log m})\delta",
        corrected=r"(1 - \tfrac{C_\kappa}{\log m})^2\delta^2 + 2(1 - \tfrac{C_\kappa}{\log m})\delta",
        printed_value=(1 - ratio * excess / log) ** 2 * excess**2 + 2 * (1 - ratio * excess / log) * excess,
        corrected_value=(1 - ratio / log) ** 2 * excess**2 + 2 * (1 - ratio / log) * excess,
        measured=(1 + excess - ratio * excess / log) ** 2 - 1, tolerance=Tolerance(1e-12, why="an identity"),
        why="The factor delta has already been taken out.", where="appendix B.4", by="derivation",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = figure.subplots(1, 2)
    ink = sheet.ink()
    excess = float(data.excess[min(2, data.sizes["excess"] - 1)])
    for i, m in enumerate(data.width.values):
        one = data.sel(width=m, excess=excess, sign=1)
        rising = (one.square <= one.level).values
        last = int(np.flatnonzero(rising)[-1])
        label = rf"$m = 10^{{{np.log10(m):.0f}}}$"
        left.semilogy(one.step[: last + 2], one.square[: last + 2], "o-", ms=4, color=f"C{i}", label=label)
        left.axhline(float(one.level), color=f"C{i}", lw=0.8, ls=":")
        steps = np.arange(last + 2)
        left.semilogy(steps, float(one.square[0]) * float(one.growth_floor) ** steps, "--", lw=1, color=ink)
    left.plot([], [], "--", lw=1, color=ink, label="guaranteed growth")
    left.plot([], [], ":", lw=0.8, color=ink, label=r"$C_u'\,\delta^2/\log m$")
    left.set(title=rf"The square rises, $\delta = {excess:g}$", xlabel="step", ylabel=r"$u$")
    left.legend(fontsize=8)
    rising = (data.square <= data.level) & data.applies
    drift = (np.abs(data.curvature - 2 - data.excess) / data.drift_ceiling).where(rising).max(("step", "sign"))
    ratio = (data.growth / data.growth_floor).where(rising).min(("step", "sign"))
    for i, d in enumerate(data.excess.values):
        right.semilogx(data.width, drift.sel(excess=d), "o-", ms=4, color=f"C{i}", label=rf"$\delta = {d:g}$")
        right.semilogx(data.width, ratio.sel(excess=d), "s--", ms=3.5, color=f"C{i}")
    right.axhline(1, color=ink, lw=1)
    right.plot([], [], "o-", ms=4, color=ink, label=r"$|v - v_0|$ over its ceiling")
    right.plot([], [], "s--", ms=3.5, color=ink, label=r"$\kappa$ over its floor")
    right.set(title="How tight the bounds are", xlabel="width $m$", ylabel="measured / guaranteed", ylim=(0, 1.35))
    right.legend(ncols=2, fontsize=8, loc="center right", bbox_to_anchor=(1, 0.55))
