"""Lemma 3.3.2: the increasing phase."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Stop, simulate
from secant.lab import Figure, Findings, Seeded, Tolerance, claim, option, options, sheet, study, unfold
from secant.studies.shared.numerics.exponents import exponent
from secant.studies.shared.numerics.tables import on_tables
from secant.studies.shared.two_layer.starts import random_starts
from secant.theory.catapult import one_sample as ct
from secant.theory.catapult import scaling as cs


class Config(Seeded):
    widths: tuple[float, ...] = options.widths((1e5, 1e6, 1e8, 1e10), at_least=10, at_most=1e12, ascending=True)
    excesses: tuple[float, ...] = option(
        (0.3, 0.6, 1.0, 1.5), at_least=0.05, at_most=1.95, ascending=True, help="step size times curvature, minus 2"
    )
    start: float = option(1.0, at_least=1e-3, at_most=1e3, help="width times the first rescaled squared residual")
    pull: float = option(0.5, above=0, at_most=100, help="C, step size times label times input norm over sqrt(d)")
    constant: float = option(0.02, at_least=1e-4, at_most=10, help="the lemma's constant C'_u")
    draws: int = options.draws(400, 2_000, 4_000, at_least=10, at_most=10**5)


@study("thesis/lem-3.3.2", section="3.3.2", title="The rise: exponential, with frozen curvature")
def run(config: Config) -> xr.Dataset:
    r"""While $u(t) \le C_u'\,\delta^2/\log m$, the square $u$ grows by at least
    $(1 + \delta - C_\kappa\delta/\log m)^2$ a step, and $|v(t) - v(0)| \le C_v\,\delta/\log m$, with
    $C_v = 28C_u'$ and $C_\kappa = 28C_u' + C_u'\delta + C\sqrt{C_u'}$.
    """

    def lemma(excess: Any, width: Any) -> cs.IncreasingPhase:
        return cs.increasing_phase(excess, width, config.pull, config.constant)

    runs = simulate(
        lambda width, excess, sign: ct.reduced_catapult(sign * config.pull / jnp.sqrt(width)),
        lambda width, excess: (jnp.sqrt(config.start / width), 2 + excess),
        400,
        over={"width": np.array(config.widths), "excess": np.array(config.excesses), "sign": np.array([-1.0, 1.0])},
        probes={
            "square": lambda s: s.a**2,
            "curvature": lambda s: s.v,
            "growth": lambda s, width, sign: ct.growth(s.a, s.v, sign * config.pull / jnp.sqrt(width)) ** 2,
        },
        stop=Stop(converged=lambda s, width, excess: s.a**2 > 2 * lemma(excess, width).square),
    ).dataset[["square", "curvature", "growth"]]
    bounds = on_tables(lemma, runs.excess, runs.width)
    large = on_tables(cs.increasing_phase_applies, runs.excess, runs.width, config.start, config.pull, config.constant)
    # Real networks give the scale of w(0).
    small = (100, 1_000, 10_000)
    starts = random_starts(jax.random.key(config.seed), small, config.draws)
    table = xr.Dataset({name: ("start", starts[name]) for name in ("output", "curvature")})
    table = unfold(table, "start", small_width=small, network=range(config.draws))
    output, curvature = table.output, table.curvature
    lr, width = 3 / curvature, curvature.small_width
    residual = on_tables(ct.rescale, output, curvature, lr, width, config.pull).a
    w0 = np.abs(residual * on_tables(ct.rescaled_target, lr, width, config.pull))
    runs = runs.assign(level=bounds.square, growth_floor=bounds.growth, drift_ceiling=bounds.drift)
    return runs.assign(applies=large, w0=w0)


def _tightness(data: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """Growth of the square over its floor, and drift of the curvature over its ceiling, where the lemma applies."""
    rising = (data.square <= data.level) & data.applies
    drift = np.abs(data.curvature - 2 - data.excess) / data.drift_ceiling
    return (data.growth / data.growth_floor).where(rising), drift.where(rising)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    growth, drift = _tightness(data)
    note = f"the conditions hold at {int(data.applies.sum())} of {data.applies.size} widths and step sizes"
    small = "the lemma needs larger widths: at these it promises nothing for any step"
    given: dict[str, Any] = {"given": growth.notnull(), "otherwise": small}
    least = claim("growth", "smallest growth of $u$ per step over its guaranteed floor", **given)
    yield least.at_least(1.0, growth.min(), "a proven bound", note=note)
    most = claim("drift", "largest drift of $v$ over its guaranteed ceiling", **given)
    yield most.at_most(1.0, drift.max(), "a proven bound", note=note)
    printed, right = (r"|w(0)| \le C\sqrt{C_u}\,m^{-3/2}", -1.5), (r"|w(0)| \le C\sqrt{C_u}\,m^{-1}", -1.0)
    near = Tolerance(0.02, why=r"the curvature varies by $\sqrt{2/m}$ at width 100, and its square enters")
    note = r"From $|w| = C\sqrt{u/m}$ and $u(0) \le C_u/m$; the main text has it right."
    found, where = exponent(data.w0.rename(small_width="width")), "appendix B.4 (and C_u C m^{-3/2} in B.3)"
    first = claim("first-w", "scale of $w$ at the start: exponent of the width")
    yield first.erratum(printed, right, found, near, note=note, where=where)
    # The next two claims are arithmetic of the proof, at constants of their own.
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
    printed = r"m \ge \frac{C_\kappa\,\delta}{C_u(C + 1)}", ratio * excess / (start * (pull + 1))
    right = r"\frac{m}{\log m} \ge \frac{C_u(C + 1)}{C_\kappa\,\delta}", upper
    note = r"The step uses $C_u(1 + C)/m \le C_\kappa\delta/\log m$. The print inverts it and loses the logarithm."
    least = claim("smallest-width", r"smallest width of the first condition ($C_u = 100$, $\delta = 1/2$)")
    where = "Lemma 3.3.2, formal statement, appendix B.4"
    yield least.erratum(printed, right, smallest, 1.0, "whole widths", note=note, where=where, by="derivation")

    def floor(taken: float) -> float:
        return (1 - taken) ** 2 * excess**2 + 2 * (1 - taken) * excess

    def expansion(share: str) -> str:
        return rf"(1 - \tfrac{{{share}}}{{\log m}})^2\delta^2 + 2(1 - \tfrac{{{share}}}{{\log m}})\delta"

    log = np.log(1e6)
    printed = expansion(r"C_\kappa\delta"), floor(ratio * excess / log)
    right, found = (expansion(r"C_\kappa"), floor(ratio / log)), (1 + excess - ratio * excess / log) ** 2 - 1
    near, note = Tolerance(1e-12, why="an identity"), r"The factor $\delta$ has already been taken out."
    expanded = claim("floor", r"expansion of the growth floor ($m = 10^6$, $\delta = 1/2$)")
    yield expanded.erratum(printed, right, found, near, note=note, where="appendix B.4", by="derivation")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = figure.subplots(1, 2)
    excess = float(data.excess[min(2, data.sizes["excess"] - 1)])
    for i, m in enumerate(data.width.values):
        one = data.sel(width=m, excess=excess, sign=1)
        steps = np.arange(np.flatnonzero(one.square <= one.level)[-1] + 2)
        label = rf"$m = 10^{{{np.log10(m):.0f}}}$"
        left.semilogy(one.step[: len(steps)], one.square[: len(steps)], "o-", ms=4, color=f"C{i}", label=label)
        sheet.mark(left, y=one.level, color=f"C{i}", lw=0.8, ls=":")
        sheet.guide(left, steps, float(one.square[0]) * float(one.growth_floor) ** steps, lw=1)
    sheet.guide(left, [], [], "guaranteed growth", lw=1)
    sheet.guide(left, [], [], r"$C_u'\,\delta^2/\log m$", lw=0.8, ls=":")
    sheet.label(left, rf"The square rises, $\delta = {excess:g}$", "step", r"$u$", {"fontsize": 8})
    growth, drift = _tightness(data)
    for i, d in enumerate(data.excess.values):
        label, low, high = rf"$\delta = {d:g}$", growth.min(("step", "sign")), drift.max(("step", "sign"))
        right.semilogx(data.width, high.sel(excess=d), "o-", ms=4, color=f"C{i}", label=label)
        right.semilogx(data.width, low.sel(excess=d), "s--", ms=3.5, color=f"C{i}")
    sheet.mark(right, y=1, ls="-", lw=1)
    right.plot([], [], "o-", ms=4, color=sheet.ink(), label=r"$|v - v_0|$ over its ceiling")
    right.plot([], [], "s--", ms=3.5, color=sheet.ink(), label=r"$\kappa$ over its floor")
    legend = {"ncols": 2, "fontsize": 8, "loc": "center right", "bbox_to_anchor": (1, 0.55)}
    title, y = "How tight the bounds are", "measured / guaranteed"
    sheet.label(right, title, "width $m$", y, legend, ylim=(0, 1.35))
