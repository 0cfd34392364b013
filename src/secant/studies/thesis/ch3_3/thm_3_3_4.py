"""Theorem 3.3.4: which equilibria are stable."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.dynamics import Outcome, Stop, simulate
from secant.lab import Figure, Findings, Seeded, Tolerance, claim, option, options, scaled, sheet, study
from secant.studies.shared.numerics.tables import on_tables
from secant.theory.catapult import one_sample as ct
from secant.theory.periodic_points import periodic_points

REST = 1e-9
"""The residual below which a run has come to rest."""


class Config(Seeded):
    b: float = option(0.3, at_least=0.05, at_most=0.9, help="rescaled label, sqrt(|x|^2/(md)) eta y")
    grid: int = scaled(smoke=121, laptop=401, paper=801, at_least=11, at_most=10_000, help="points a side of the basin")
    searches: int = scaled(smoke=2_000, laptop=20_000, at_least=1_000, at_most=10**7, help="Newton searches")
    steps: int = options.steps(400, at_least=100, at_most=10**6)


@study("thesis/thm-3.3.4", section="3.3.4", title="Only minima flatter than the edge are stable")
def run(config: Config) -> xr.Dataset:
    r"""The stable equilibria of the dynamics have $g = y$ and $\lambda \in [\varepsilon, 2/\eta - \varepsilon]$.

    In $(a, v)$ the line $a = 0$ has multipliers $1 - v$ and $1$. All other equilibria are unstable: $(-b, 0)$
    with multipliers $(1 \pm |b|)^2$, $(\pm 2, 4 \pm 2b)$ with $9$ and $5 \pm 2b$, and the orbits of period
    two, all on the separatrix $v = 4 + ab$.

    The study leaves out starts on the rim $v = 2|a + b|$: the rim maps to itself and holds the stable direction of the
    saddle $(-b, 0)$, so rounding decides there. It also leaves out starts on the line $a = 0$, which are at rest from
    the first.
    """
    basin = simulate(
        ct.reduced_catapult(config.b),
        lambda a, v: (a, v),
        config.steps,
        over={"a": np.linspace(-2.6, 2.6, config.grid), "v": np.linspace(0.0, 6.0, config.grid)},
        stop=Stop(converged=lambda s: jnp.abs(s.a) < REST, diverged=lambda s: jnp.abs(s.a) > 1e3, every=10),
    )
    line = np.linspace(0.05, 2.5, 99)
    return basin.dataset[["outcome"]].assign(
        final=(("a", "v"), np.asarray(basin.state.v)),
        fixed=(("fixed_point", "coordinate"), _points(config, 1)),
        double=(("double_point", "coordinate"), _points(config, 2)),
        line_growth=("line", np.abs(np.asarray(ct.step(1e-7, line, 0.0).a)) / 1e-7),
        line=line,
    )


def _points(config: Config, period: int) -> np.ndarray:
    """Distinct points of a period away from the line of minima, by Newton's method from random places."""
    sides = zip(jax.random.split(jax.random.key(config.seed), 2), ((-2.5, 2.5), (-1.0, 6.0)), strict=True)
    starts = jnp.stack([jax.random.uniform(key, (config.searches,), float, *side) for key, side in sides], axis=-1)
    ends, gaps = map(np.asarray, periodic_points(lambda a, v: ct.step(a, v, config.b), starts, period))
    good = (gaps < 1e-12) & (np.abs(ends[:, 0]) > 1e-3) & np.all(np.abs(ends) < 10, axis=1)
    return np.unique(np.round(ends[good], 8), axis=0).reshape(-1, 2)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    b, why = config.b, r"the perturbation is $10^{-7}$, its square is dropped"
    gap = np.abs(data.line_growth - np.abs(1 - data.line)).max()
    yield claim("line", "growth along the line of minima is $|1 - v|$: largest deviation").zero(gap, 1e-9, why)
    known = (data.v > 2 * np.abs(data.a + b) + 1e-9) & (np.abs(data.a) > REST)
    resting, ended = data.outcome == Outcome.CONVERGED, data.outcome != Outcome.UNFINISHED
    largest, note = data.final.where(known & resting).max(), f"{int((known & resting).sum())} starts"
    rest = claim("curvature", "largest curvature at which gradient descent came to rest")
    yield rest.at_most(2.0, largest, "multiplier $1 - v$", note=note)
    below, note = on_tables(ct.separatrix, data.a, data.v, b) < 0, f"of {int((known & ended).sum())}"
    yield claim("wrong-side", "feasible starts that ended on the wrong side of the separatrix").zero(
        (known & ended & (resting != below)).sum(), 0, "the sign of $q$ is conserved", note=note
    )
    # Half of the steps to get there; in the others a residual of order one falls to rest by |1 - v| a step.
    slow = 1 - REST ** (2 / config.steps)
    name = f"feasible starts still under way, though more than {slow:.2f} from 0 and 2, where the approach is slow"
    stuck = (known & ~ended & (data.final > slow) & (data.final < 2 - slow)).sum()
    note = f"{int((known & ~ended).sum())} of {int(known.sum())} are under way"
    yield claim("under-way", name).zero(stuck, 0, "multiplier $1 - v$", note=note)
    points, fixed, double = ct.equilibria(b), data.fixed.values, data.double.values
    genuine = ~(np.abs(double[:, None] - fixed).max(axis=2) < 1e-6).any(axis=1)
    q, six = np.asarray(ct.separatrix(double[:, 0], double[:, 1], b)), r"$\cos 9t = \cos t$ has six solutions"
    rounded = "Newton's method, rounded to eight digits"
    for period, key, name, found, why in (
        (1, "fixed", "fixed points away from the minima", fixed, "a complete list"),
        (2, "double", "points of period two", double[genuine], f"Chebyshev: {six} that are not fixed"),
    ):
        formulas = np.array([(p.a, p.v) for p in points if p.period == period])
        gap = np.abs(found[:, None] - formulas).max(axis=2).min(axis=1).max(initial=0.0)
        yield claim(f"{key}-number", f"number of {name}").count(len(formulas), len(found), why)
        yield claim(f"{key}-places", f"{name}: largest distance from their formulas").zero(gap, 1e-7, rounded)
    on, gap = "points of period two: largest distance from the separatrix", np.abs(q[genuine]).max(initial=0.0)
    yield claim("double-separatrix", on).zero(gap, 1e-7, rounded)
    flat, root = fixed[np.argmin(np.abs(fixed[:, 1]))], double[np.argmin(np.abs(double[:, 0] - np.sqrt(2)))]
    jacobians = jit(lambda a, v: (ct.jacobian(a, v, b), ct.jacobian(*ct.step(a, v, b), b)), quick=True)
    first, second = map(np.asarray, jacobians(*np.array([*((p.a, p.v) for p in points), flat]).T))
    whole = [second[i] @ first[i] if p.period == 2 else first[i] for i, p in enumerate(points)]
    multipliers = np.linalg.eigvals(whole).real
    gap = np.abs(np.sort(multipliers) - np.sort([p.multipliers for p in points])).max()
    name = "multipliers of all equilibria: largest deviation from their formulas"
    yield claim("multipliers", name).zero(gap, 1e-9, "rounding")
    small = (double[:, 0] ** 2 < 10 * b**2) & (double[:, 1] > 0.5) & (np.abs(q) > 1e-6) & genuine
    near = Tolerance(1e-6, why=rounded)
    appendix, case, square = "appendix B.6", "appendix B.6, case (2.1)", root[0] ** 2
    printed = r"|\lambda_J| = 1 + 5C\sqrt{u^\ast/m} - u^\ast", 1 + 4 * b**2
    right = r"\lambda_J = 1 + u^\ast \pm 2\sqrt{u^\ast},\quad u^\ast = C^2/m", (1 + b) ** 2
    found = np.abs(np.linalg.eigvals(first[-1])).max()
    note = r"The print takes the Jacobian for $\mu = -1$, but $\mu = +1$. Its number would be a squared modulus."
    zero = claim("zero-output", "multiplier of the equilibrium with zero output, case (2.2)")
    yield zero.erratum(printed, right, found, near, note=note, where=appendix)
    printed = r"v^\ast = 2 - u^\ast + w^\ast", 2 - square + root[0] * b
    right, note = (r"v^\ast = 2 + u^\ast + w^\ast", 2 + square + root[0] * b), "Solve $1 - v + u + w = -1$ for $v$."
    states = claim("reflected", r"curvature of the states with $|\mu| = 1$, from $u^\ast$ and $w^\ast$")
    yield states.erratum(printed, right, root[1], near, note=note, where=case)
    printed = r"u^\ast \in \big(\tfrac43\tfrac{C^2}{m}, 2\tfrac{C^2}{m}\big),\ v^\ast \in (1, 2)", 1.0
    note = r"$w$ changes sign with $g - y$: a state with $\mu = -1$ has period two. This state is no orbit at all."
    states = claim("small-states", r"states with $u^\ast = \Theta(1/m)$ and $v^\ast$ between 1 and 2")
    yield states.erratum(printed, (r"\text{none}", 0.0), small.sum(), 0.0, "a count", note=note, where=case)
    printed = r"u^\ast = \Theta(1/m)\ \text{in all cases}", b**2
    right, found = (r"u^\ast = 4,\ v^\ast = 4 + w^\ast", 4.0), (fixed[:, 0] ** 2).max()
    note = "The claim of only two cases misses the corners of the separatrix."
    largest = claim("largest-square", "largest square among the fixed points")
    yield largest.erratum(printed, right, found, near, note=note, where=appendix)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (9.5, 4.6), 2, width_ratios=(3, 2))
    ink, b, a = sheet.ink(), config.b, data.a
    final = data.final.where(data.outcome == Outcome.CONVERGED).transpose("v", "a")
    image = left.pcolormesh(a, data.v, final, cmap="viridis", vmin=0, vmax=2, rasterized=True)
    figure.colorbar(image, ax=left, label=r"final $\eta\lambda$", pad=0.01)
    left.plot(a, 4 + a * b, color="C5", lw=1.8, label=r"separatrix $v = 4 + ab$")
    left.fill_between(a, 0, 2 * np.abs(a + b), color=sheet.faint(), lw=0)
    sheet.guide(left, a, 2 * np.abs(a + b), r"$v = 2|a + b|$")
    for name, marker, label in (
        ("zero output", "o", r"$(-b, 0)$"),
        ("corner", "s", r"$(\pm 2, 4 \pm 2b)$"),
        ("root two", "^", "period 2, root two"),
        ("golden", "D", "period 2, golden"),
    ):
        points = np.array([(p.a, p.v) for p in ct.equilibria(b) if p.name == name])
        left.plot(*points.T, marker, color="C1", mec="white", ms=7, label=label)
    left.text(0, 5.0, "diverges", ha="center", color=ink)
    left.text(-1.6, 0.5, "no such network", ha="center", color=ink, fontsize=9)
    legend = {"fontsize": 7.5, "loc": "upper right", "ncols": 2, "frameon": True, "facecolor": figure.get_facecolor()}
    title, x, v, limits = "Where gradient descent ends", r"$a \propto \eta(g - y)$", r"$v = \eta\lambda$", (a[0], a[-1])
    sheet.label(left, title, x, v, legend, ylim=(0, 7.2), xlim=limits)
    right.plot(data.line, data.line_growth, "o", ms=3, color="C0", label="measured")
    sheet.guide(right, data.line, np.abs(1 - data.line), r"$|1 - v|$", lw=1)
    sheet.mark(right, y=1, lw=0.8, ls=":")
    right.axvspan(0, 2, color="C2", alpha=0.12, lw=0)
    right.text(1.0, 1.3, "stable", ha="center", color="C2")
    title = "The line of minima"
    sheet.label(right, title, v, "growth per step", "lower right", xlim=(0, 2.5), ylim=(0, 1.6))
