"""Lemma 3.3.3: the decreasing phase."""

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Stop, simulate
from secant.lab import Figure, Findings, Options, Tolerance, claim, fits_memory, option, options, scaled, sheet, study
from secant.studies.shared.numerics.tables import on_tables
from secant.theory.catapult import one_sample as ct
from secant.theory.catapult import scaling as cs


class Config(Options):
    widths: tuple[float, ...] = options.widths((1e3, 1e4, 1e6, 1e8), at_least=100, at_most=1e12, ascending=True)
    excesses: tuple[float, ...] = option(
        (0.3, 1.0, 1.4, 1.8), at_least=0.05, at_most=1.95, ascending=True, help="step size times curvature, minus 2"
    )
    starts: int = scaled(smoke=12, laptop=48, at_least=2, at_most=10**6, help="starting residuals of either sign")
    pull: float = option(1.0, above=0, at_most=4, help="C, step size times label times input norm over sqrt(d)")
    steps: int = options.steps(2_000, at_least=10, at_most=10**7)

    def check(self) -> None:
        """Refuses what no memory holds."""
        runs = len(self.widths) * len(self.excesses) * self.starts
        fits_memory(80.0 * runs * self.steps, "starts or steps")


@study("thesis/lem-3.3.3", section="3.3.3", title="The fall: curvature drops until the loss is of order one")
def run(config: Config) -> xr.Dataset:
    r"""After the rise there is a time $T_2$ with $v(T_2) \le 3$; any constant $\bar C$ in $(2, 4)$ can replace 3. From
    $T_2$ on $v$ keeps falling until $u = O(1/m)$: there is $T^\ast$ with $u(T^\ast) = O(1/m)$, a loss of order one.
    The proof rests on one implication: $v(t + 1) < v(t)$ whenever $v(t) < 4$ and
    $$u(t) > \frac{16\,C^2}{m\,(4 - v(t))^2} .$$
    """
    starts = np.geomspace(0.2, 2.0, config.starts) * (-1.0) ** np.arange(config.starts)
    data = simulate(
        lambda width: ct.reduced_catapult(config.pull / jnp.sqrt(width)),
        lambda width, excess, start: (start / jnp.sqrt(width), 2 + excess),
        config.steps,
        over={"width": np.array(config.widths), "excess": np.array(config.excesses), "start": starts},
        probes={"a": lambda s: s.a, "v": lambda s: s.v},
        stop=Stop(converged=lambda s: (jnp.abs(s.a) < 1e-10) & (s.v < 2)),
    ).dataset
    squares = np.geomspace(3e-3, 0.1, 400)
    change = np.asarray(ct.step(-np.sqrt(squares), 2.0, 0.1).v) - 2.0
    return data[["a", "v", "outcome"]].assign(change=("square", change)).assign_coords(square=squares)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    u, v, scaled_u = data.a**2, data.v, data.a**2 * data.width
    below = on_tables(ct.separatrix, data.a, v, config.pull / np.sqrt(data.width)) < 0
    ceiling, end, starts = float(cs.decrease_threshold(3.0, 1.0, config.pull)), v.isel(step=-1) < 2, below.isel(step=0)
    high = starts & ~((scaled_u.isel(step=-1) <= ceiling) & end)
    needed = 2 * float(cs.time_to_peak(config.excesses[0], config.widths[-1]))
    few = f"{config.steps} steps are too few: {int((high & end).sum())} runs are still falling"
    enough = config.steps >= needed and not (high & end).any()
    name = r"runs below the separatrix that do not end with $m\cdot u \le 16C^2$ and $\eta\lambda < 2$"
    why = "every start below the separatrix converges; at $v = 3$ the threshold is $16C^2$"
    converge = claim("converge", name, given=enough, otherwise=few)
    yield converge.zero(high.sum(), 0, why, note=f"of {int(starts.sum())} runs")
    must_fall = (u > on_tables(cs.decrease_threshold, v, data.width, config.pull)) & (v < 4) & below
    rises = v.diff("step", label="lower") > 1e-14
    yield claim("implication", "steps with $u$ above the threshold on which the curvature rose").zero(
        (rises & must_fall).sum(), 0, "a proven implication"
    )
    after = ((v <= 3).cumsum("step") > 0) & below
    yield claim("first-rise", r"$m\cdot u$ where the curvature first rises after falling below 3").at_most(
        ceiling, scaled_u.where(rises & after).fillna(0).max(), "the threshold at $v = 3$ is $16C^2$ at every width"
    )
    # The true threshold at C = 1, m = 100, v = 2, read off the map.
    printed = r"u > \frac{4C}{m(4 - v)^2}", 4 * 1.0 / (100 * 4)
    right = r"u > \frac{16\,C^2}{m(4 - v)^2}", float(cs.decrease_threshold(2.0, 100.0, 1.0))
    near, found = Tolerance(0.0, 0.01, why="spacing of the grid of squares"), data.square[data.change >= 0][-1]
    note = r"$u(4 - v) > 4C\sqrt{u/m}$ gives the square of $4C$; $u = 0.02$ with $w < 0$ gives $v' = 2.0166 > v$."
    threshold = claim("threshold", "square above which the curvature must fall ($C = 1$, $m = 100$, $v = 2$)")
    where = "Proposition B.5.2 (used again in B.5.3 and B.8)"
    yield threshold.erratum(printed, right, found, near, note=note, where=where)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    excess, v = float(data.excess[min(1, data.sizes["excess"] - 1)]), np.linspace(0.02, 3.4, 200)
    for i, m in enumerate(data.width.values):
        one = data.sel(width=m, excess=excess).isel(start=config.starts // 2)
        label = rf"$m = 10^{{{np.log10(m):.0f}}}$"
        left.semilogy(one.v, one.a**2, "o-", ms=3.5, lw=1, color=f"C{i}", label=label)
        sheet.guide(left, v, cs.decrease_threshold(v, m, config.pull), lw=1, color=f"C{i}", alpha=0.7)
    sheet.guide(left, [], [], r"$16\,C^2/(m(4 - v)^2)$", lw=1)
    sheet.mark(left, x=2, lw=0.8, ls=":")
    left.set(title=rf"Orbits, $\delta = {excess:g}$", xlabel=r"$v = \eta\lambda$", ylabel=r"$u$")
    left.set(ylim=(1e-11, 10), xlim=(0, 3.5))
    left.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.42, 0))
    right.semilogx(data.square, data.change, color="C0")
    sheet.mark(right, y=0, ls="-", lw=0.8)
    for value, name, style in ((0.01, "printed", ":"), (0.04, "corrected", "--")):
        sheet.mark(right, x=value, ls=style)
        right.text(value * 0.93, -0.08, name, rotation=90, ha="right", va="center", color=sheet.ink())
    right.set(title="Change of curvature at $v = 2$, $w < 0$", xlabel=r"$u$", ylabel=r"$v' - v$", ylim=(-0.12, 0.03))
