"""Theorem 3.3.4: which equilibria are stable."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Outcome, Probe, Stop, simulate
from secant.lab import Erratum, Figure, Findings, Tolerance, claims, option, scaled, sheet, study
from secant.theory import catapult as ct

REST = 1e-9
"""The residual below which a run has come to rest."""


@dataclass(frozen=True)
class Config:
    """Label and resolution."""

    b: float = option(0.3, at_least=0.05, at_most=0.9, help="rescaled label, sqrt(|x|^2/(md)) eta y")
    grid: int = scaled(
        smoke=121, laptop=401, paper=801, at_least=11, at_most=10_000, help="points per side of the basin picture"
    )
    searches: int = scaled(smoke=2_000, laptop=20_000, at_least=1_000, at_most=10**7, help="Newton searches")
    steps: int = option(400, at_least=100, at_most=10**6, help="gradient-descent steps")
    seed: int = option(0, at_least=0, at_most=2**31, help="random seed")


@study(
    "thesis/thm-3.3.4", section="3.3.4", title="Only minima flatter than the edge are stable",
    statement=r"""
    The stable equilibria of the dynamics have $g = y$ and $\lambda \in [\varepsilon, 2/\eta - \varepsilon]$.

    In $(a, v)$ the line $a = 0$ has multipliers $1 - v$ and $1$. All other equilibria are unstable: $(-b, 0)$
    with multipliers $(1 \pm |b|)^2$, $(\pm 2, 4 \pm 2b)$ with $9$ and $5 \pm 2b$, and the orbits of period
    two, all on the separatrix $v = 4 + ab$.

    Starts on the rim $v = 2|a + b|$ are left out, and those on the line $a = 0$ itself: the rim maps to itself and
    holds the stable direction of the saddle $(-b, 0)$, so that rounding decides there; the line is at rest from the
    first.""",
)
def run(config: Config) -> xr.Dataset:
    b = config.b
    a, v = np.linspace(-2.6, 2.6, config.grid), np.linspace(0.0, 6.0, config.grid)
    basin = simulate(
        ct.reduced_catapult(b), lambda a, v: (a, v), config.steps, over={"a": jnp.asarray(a), "v": jnp.asarray(v)},
        probes={"final": Probe(lambda s: s.v, every=config.steps)},
        stop=Stop(
            converged=lambda s: jnp.abs(s.a) < REST, diverged=lambda s: jnp.abs(s.a) > 1e3, every=10,
        ),
    )
    fixed, double = (_search(config, period) for period in (1, 2))
    line = np.linspace(0.05, 2.5, 99)
    after = ct.step(1e-7, line, 0.0)
    return xr.Dataset(
        {
            "final": (("a", "v"), np.asarray(basin.state.v)), "outcome": basin.dataset.outcome,
            "fixed": (("fixed_point", "coordinate"), fixed), "double": (("double_point", "coordinate"), double),
            "line_growth": ("line", np.abs(np.asarray(after.a)) / 1e-7),
        },
        coords={"a": a, "v": v, "line": line},
    )


def _search(config: Config, period: int) -> np.ndarray:
    """Distinct points of a period away from the line of minima, by Newton's method from random places."""
    keys = jax.random.split(jax.random.key(config.seed), 2)
    start = jnp.stack(
        [
            jax.random.uniform(keys[0], (config.searches,), minval=-2.5, maxval=2.5),
            jax.random.uniform(keys[1], (config.searches,), minval=-1.0, maxval=6.0),
        ],
        axis=-1,
    )

    def gap(point: jax.Array) -> jax.Array:
        a, v = point
        for _ in range(period):
            a, v = ct.step(a, v, config.b)
        return jnp.stack([a, v]) - point

    @jax.jit
    @jax.vmap
    def newton(point: jax.Array) -> tuple[jax.Array, jax.Array]:
        def body(_: int, p: jax.Array) -> jax.Array:
            J = jax.jacfwd(gap)(p)
            det = J[0, 0] * J[1, 1] - J[0, 1] * J[1, 0]
            g = gap(p)
            move = jnp.stack([J[1, 1] * g[0] - J[0, 1] * g[1], J[0, 0] * g[1] - J[1, 0] * g[0]])
            return p - move / det

        end = jax.lax.fori_loop(0, 60, body, point)
        return end, jnp.max(jnp.abs(gap(end)))

    ends, error = (np.asarray(x) for x in newton(start))
    good = ends[(error < 1e-12) & (np.abs(ends[:, 0]) > 1e-3) & np.all(np.abs(ends) < 10, axis=1)]
    return np.unique(np.round(good, 8), axis=0).reshape(-1, 2)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    b = config.b
    yield claims.zero(
        "growth along the line of minima is |1 - v|: largest deviation",
        np.abs(data.line_growth - np.abs(1 - data.line)).max(), 1e-9, "the perturbation is 1e-7, its square is dropped",
    )
    a, v = np.meshgrid(data.a.values, data.v.values, indexing="ij")
    known = (v > 2 * np.abs(a + b) + 1e-9) & (np.abs(a) > REST)
    resting = known & (data.outcome.values == Outcome.CONVERGED)
    yield claims.at_most(
        "largest curvature at which gradient descent came to rest", 2.0, data.final.where(resting).max(),
        "multiplier 1 - v", note=f"{int(resting.sum())} starts",
    )
    side = np.where(np.asarray(ct.separatrix(a, v, b)) < 0, Outcome.CONVERGED, Outcome.DIVERGED)
    ended = data.outcome.values != Outcome.UNFINISHED
    yield claims.zero(
        "feasible starts that ended on the wrong side of the separatrix",
        (known & ended & (data.outcome.values != side)).sum(), 0, "the sign of q is conserved",
        note=f"of {int((known & ended).sum())}",
    )
    # Half of the steps to get there; in the others a residual of order one falls to rest by |1 - v| a step.
    slow = 1 - REST ** (2 / config.steps)
    under_way = known & ~ended & (data.final.values > slow) & (data.final.values < 2 - slow)
    yield claims.zero(
        f"feasible starts still under way, though more than {slow:.2f} from 0 and 2, where the approach is slow",
        under_way.sum(), 0, "multiplier 1 - v",
        note=f"{int((known & ~ended).sum())} of {int(known.sum())} are under way",
    )
    points = ct.equilibria(b)
    q = np.asarray(ct.separatrix(data.double.values[:, 0], data.double.values[:, 1], b))
    genuine = np.array([not np.any(np.abs(data.fixed.values - p).max(axis=1) < 1e-6) for p in data.double.values])
    for period, found, why in (
        (1, data.fixed.values, "a complete list"),
        (2, data.double.values[genuine], "Chebyshev: cos 9t = cos t has six solutions that are not fixed"),
    ):
        known_points = np.array([(p.a, p.v) for p in points if p.period == period])
        near = "fixed points away from the minima" if period == 1 else "points of period two"
        yield claims.equal(f"number of {near}", len(known_points), len(found), 0, why)
        yield claims.zero(
            f"{near}: largest distance from their formulas",
            np.abs(found[:, None] - known_points).max(axis=2).min(axis=1).max(initial=0.0), 1e-7,
            "Newton's method, rounded to eight digits",
        )
    yield claims.zero(
        "points of period two: largest distance from the separatrix", np.abs(q[genuine]).max(initial=0.0), 1e-7,
        "Newton's method, rounded to eight digits",
    )
    largest = 0.0
    for p in points:
        derivative, state = np.eye(2), ct.Catapult(jnp.asarray(p.a), jnp.asarray(p.v))
        for _ in range(p.period):
            derivative = np.asarray(ct.jacobian(state[0], state[1], b)) @ derivative
            state = ct.step(state[0], state[1], b)
        eigenvalues = np.sort(np.linalg.eigvals(derivative).real)
        largest = max(largest, float(np.abs(eigenvalues - np.sort(p.multipliers)).max()))
    yield claims.zero("multipliers of all equilibria: largest deviation from their formulas", largest, 1e-9, "rounding")
    near = data.fixed.values[np.argmin(np.abs(data.fixed.values[:, 1]))]
    measured = np.abs(np.linalg.eigvals(np.asarray(ct.jacobian(near[0], near[1], b)))).max()
    yield Erratum(
        "multiplier of the equilibrium with zero output, case (2.2)",
        printed=r"|\lambda_J| = 1 + 5C\sqrt{u^\ast/m} - u^\ast",
        corrected=r"\lambda_J = 1 + u^\ast \pm 2\sqrt{u^\ast},\quad u^\ast = C^2/m", printed_value=1 + 4 * b**2,
        corrected_value=(1 + b) ** 2, measured=float(measured),
        tolerance=Tolerance(1e-6, why="Newton's method, rounded to eight digits"),
        why="The Jacobian was evaluated for mu = -1 but mu = +1 there; the printed number would be a squared modulus.",
        where="appendix B.6",
    )
    root = data.double.values[np.argmin(np.abs(data.double.values[:, 0] - np.sqrt(2)))]
    yield Erratum(
        "curvature of the states with |mu| = 1, from u* and w*", printed=r"v^\ast = 2 - u^\ast + w^\ast",
        corrected=r"v^\ast = 2 + u^\ast + w^\ast", printed_value=2 - root[0] ** 2 + root[0] * b,
        corrected_value=2 + root[0] ** 2 + root[0] * b, measured=float(root[1]),
        tolerance=Tolerance(1e-6, why="Newton's method, rounded to eight digits"),
        why="Solve 1 - v + u + w = -1 for v.", where="appendix B.6, case (2.1)",
    )
    small = (data.double.values[:, 0] ** 2 < 10 * b**2) & (data.double.values[:, 1] > 0.5)
    small &= (np.abs(q) > 1e-6) & genuine
    yield Erratum(
        "states with u* = Theta(1/m) and v* between 1 and 2",
        printed=r"u^\ast \in \big(\tfrac43\tfrac{C^2}{m}, 2\tfrac{C^2}{m}\big),\ v^\ast \in (1, 2)",
        corrected=r"\text{none}", printed_value=1.0, corrected_value=0.0, measured=float(small.sum()),
        tolerance=Tolerance(0.0, why="a count"),
        why="w changes sign with g - y, so a state with mu = -1 has period two, and this one is no orbit at all.",
        where="appendix B.6, case (2.1)",
    )
    yield Erratum(
        "largest square among the fixed points", printed=r"u^\ast = \Theta(1/m)\ \text{in all cases}",
        corrected=r"u^\ast = 4,\ v^\ast = 4 + w^\ast", printed_value=b**2, corrected_value=4.0,
        measured=float((data.fixed.values[:, 0] ** 2).max()),
        tolerance=Tolerance(1e-6, why="Newton's method, rounded to eight digits"),
        why="The claim of only two cases misses the corners of the separatrix.", where="appendix B.6",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    left, right = sheet.panels(figure, (9.5, 4.6), 2, width_ratios=(3, 2))
    ink, b = sheet.ink(), config.b
    final = data.final.where(data.outcome == 1).transpose("v", "a")
    image = left.pcolormesh(data.a, data.v, final, cmap="viridis", vmin=0, vmax=2, rasterized=True)
    figure.colorbar(image, ax=left, label=r"final $\eta\lambda$", pad=0.01)
    a = data.a.values
    left.plot(a, 4 + a * b, color="C5", lw=1.8, label=r"separatrix $v = 4 + ab$")
    left.fill_between(a, 0, 2 * np.abs(a + b), color=sheet.faint(), lw=0)
    left.plot(a, 2 * np.abs(a + b), color=ink, lw=1.2, ls="--", label=r"$v = 2|a + b|$")
    styles = {"zero output": "o", "corner": "s", "root two": "^", "golden": "D"}
    seen: set[str] = set()
    for p in ct.equilibria(b):
        label = {"zero output": r"$(-b, 0)$", "corner": r"$(\pm 2, 4 \pm 2b)$"}.get(p.name, f"period 2, {p.name}")
        left.plot(
            p.a, p.v, styles[p.name], color="C1", mec="white", ms=7, label=None if p.name in seen else label, ls="none"
        )
        seen.add(p.name)
    left.set(title="Where gradient descent ends", xlabel=r"$a \propto \eta(g - y)$", ylabel=r"$v = \eta\lambda$")
    left.set(ylim=(0, 7.2), xlim=(a[0], a[-1]))
    left.text(0, 5.0, "diverges", ha="center", color=ink)
    left.text(-1.6, 0.5, "no such network", ha="center", color=ink, fontsize=9)
    left.legend(fontsize=7.5, loc="upper right", ncols=2, frameon=True, facecolor=plt.rcParams["savefig.facecolor"])
    right.plot(data.line, data.line_growth, "o", ms=3, color="C0", label="measured")
    right.plot(data.line, np.abs(1 - data.line), "--", lw=1, color=ink, label=r"$|1 - v|$")
    right.axhline(1, color=ink, lw=0.8, ls=":")
    right.axvspan(0, 2, color="C2", alpha=0.12, lw=0)
    right.text(1.0, 1.3, "stable", ha="center", color="C2")
    right.set(
        title="The line of minima", xlabel=r"$v = \eta\lambda$", ylabel="growth per step", xlim=(0, 2.5), ylim=(0, 1.6)
    )
    right.legend(loc="lower right")
